// Images into the shape of a model's input and back onto a canvas.

/** Any image file as Uint8Array [channels × height × width]: cut out of the middle, scaled, on white, grey if need be. */
export async function read(blob, [channels, height, width]) {
  let image;
  try {
    image = await createImageBitmap(blob, { colorSpaceConversion: "none" });
  } catch {
    throw new Error("this file is not an image that the browser can read");
  }
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  context.imageSmoothingQuality = "high";
  const scale = Math.min(image.width / width, image.height / height);
  const [across, down] = [width * scale, height * scale];
  context.drawImage(image, (image.width - across) / 2, (image.height - down) / 2, across, down, 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);
  const picture = new Uint8Array(channels * height * width), area = height * width;
  for (let i = 0; i < area; i++) {
    const [red, green, blue] = data.subarray(4 * i, 4 * i + 3);
    if (channels === 1) picture[i] = Math.round(0.299 * red + 0.587 * green + 0.114 * blue);
    else [red, green, blue].forEach((value, c) => { picture[c * area + i] = value; });
  }
  return picture;
}

/** A picture on a canvas, one pixel to a pixel; style sheets enlarge it. */
export function show(canvas, picture, [channels, height, width], words) {
  Object.assign(canvas, { width, height });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", words);
  const area = height * width, image = new ImageData(width, height);
  for (let i = 0; i < area; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = picture[channels === 3 ? c * area + i : i];
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}
