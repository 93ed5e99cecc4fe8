"use strict";
// What the page can do beyond standing there: reading curves under the pointer, sorting, paging. Nothing is fetched.
(() => {
  const read = (root) => JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  const reveal = (root) => root.querySelectorAll(".live, .slide").forEach((part) => { part.hidden = false; });

  function curve(root) {
    const { end, radii, runs } = read(root);
    const svg = root.querySelector("svg"), slide = root.querySelector(".slide");
    const box = svg.querySelector('[id$="-plot"]').getBBox();
    const cells = [...root.querySelectorAll(".reading td")], shown = root.querySelector("output");
    const names = [...root.querySelectorAll(".reading th")].map((head) => head.textContent);
    const draw = (kind, looks) => {
      const part = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", kind));
      Object.entries(looks).forEach(([name, value]) => part.setAttribute(name, value));
      return part;
    };
    const line = draw("line", { class: "cursor", y1: box.y, y2: box.y + box.height });
    const dots = cells.filter((cell) => !cell.closest(".envelope-row"))
      .map((_, i) => draw("circle", { class: "dot", r: 4, style: `fill: var(--c${i % 6})` }));

    function show(place) {
      const x = box.x + (box.width * radii[place]) / end;
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      shown.textContent = radii[place];
      runs.forEach((run, i) => {
        const value = run[place];
        cells[i].textContent = value ? `${value[1]} %` : "not tried";
        if (value && value[2]) {
          cells[i].appendChild(document.createElement("small")).textContent = value[2];
        }
        if (dots[i]) {
          dots[i].setAttribute("visibility", value ? "visible" : "hidden");
          dots[i].setAttribute("cx", x);
          dots[i].setAttribute("cy", box.y + box.height * (1 - (value ? value[0] : 0)));
        }
      });
      slide.value = place;
      const words = runs.map((run, i) => `${names[i]} ${run[place] ? run[place][1] + " %" : "not tried"}`);
      slide.setAttribute("aria-valuetext", `radius ${radii[place]}: ${words.slice(0, dots.length).join(", ")}`);
    }
    function point(event) {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const radius = Math.min(Math.max((at.x - box.x) / box.width, 0), 1) * end;
      const above = radii.findIndex((value) => value >= radius);
      const place = above < 0 ? radii.length - 1 : above;
      show(place > 0 && radius - radii[place - 1] < radii[place] - radius ? place - 1 : place);
    }
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    slide.addEventListener("input", () => show(Number(slide.value)));
    reveal(root);
    // The slider stands under the axis it moves along.
    const wide = svg.viewBox.baseVal.width, reach = (box.width * radii.at(-1)) / end;
    slide.style.width = `calc(${(100 * reach) / wide}% + 16px)`;
    slide.style.marginLeft = `calc(${(100 * box.x) / wide}% - 8px)`;
    show(Number(slide.value));
  }

  function gallery(root) {
    const list = root.querySelector(".gallery"), order = root.querySelector(".order");
    order.addEventListener("change", () => {
      const key = order.value.replace("-", ""), sign = order.value.startsWith("-") ? -1 : 1;
      const by = (a, b) => sign * (a.dataset[key] - b.dataset[key]) || a.dataset.index - b.dataset.index;
      list.append(...[...list.children].sort(by));
    });
    reveal(root);
  }

  function listing(root) {
    const { columns, names, page, radii, whole } = read(root);
    const body = root.querySelector("tbody"), place = root.querySelector(".place");
    const [back, on] = [".back", ".on"].map((name) => root.querySelector(name));
    const all = columns.index.map((_, i) => i);
    const outcome = (i) =>
      columns.predicted[i] === -1 ? "abstained" : columns.predicted[i] === columns.label[i] ? "correct" : "wrong";
    const name = (label) => (label === -1 ? "none" : names[label] ?? String(label));
    const radius = (i) =>
      !radii || columns.predicted[i] === -1 ? "–" : whole ? String(columns.radius[i] / 1000) : (columns.radius[i] / 1000).toFixed(3);
    const draws = (i) => columns.draws[i] === null ? "–" : columns.draws[i].toLocaleString("en-US");
    let sort = "index", sign = 1, first = 0, rows = all;

    function choose() {
      const kind = root.querySelector(".picks :checked").value, values = columns[sort];
      rows = all.filter((i) => kind === "all" || outcome(i) === kind);
      rows.sort((a, b) => sign * (values[a] - values[b]) || a - b);
      first = 0;
      fill();
    }
    function fill() {
      body.replaceChildren(...rows.slice(first, first + page).map((i) => {
        const row = document.createElement("tr");
        row.className = `one ${outcome(i)}`;
        for (const text of [columns.index[i], name(columns.label[i]), name(columns.predicted[i]), outcome(i), radius(i), draws(i)]) {
          row.insertCell().textContent = text;
        }
        row.cells[3].className = "outcome";
        return row;
      }));
      const last = Math.min(first + page, rows.length);
      place.textContent = rows.length ? `${(first + 1).toLocaleString("en-US")} – ${last.toLocaleString("en-US")} of ${rows.length.toLocaleString("en-US")}` : "no such inputs";
      back.disabled = first === 0;
      on.disabled = last === rows.length;
    }
    function turn(step) {
      first += step;
      fill();
      body.closest(".scroll").scrollTop = 0;
    }
    root.querySelectorAll("th[data-sort]").forEach((head) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        sign = sort === head.dataset.sort ? -sign : head.dataset.sort === "radius" ? -1 : 1;
        sort = head.dataset.sort;
        root.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        choose();
      });
    });
    root.querySelector(".picks").addEventListener("change", choose);
    back.addEventListener("click", () => turn(-page));
    on.addEventListener("click", () => turn(page));
    reveal(root);
    fill();
  }

  document.querySelectorAll(".curve").forEach(curve);
  document.querySelectorAll(".inputs:not(.listing)").forEach(gallery);
  document.querySelectorAll(".listing").forEach(listing);
})();
