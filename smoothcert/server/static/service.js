// The service's routes (Open Inference Protocol v2), and the key if it asks for one. The key is in memory only.

const OUTPUTS = ["label", "radius", "abstained", "draws", "guarantee", "certificate", "reason", "votes"];
let key = "";

/** What the service said instead of an answer; `status` 0: nothing came back. */
export class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export const useKey = (given) => { key = given; };
export const hasKey = () => key !== "";

/** The response to a request, or a Refusal with the service's own sentence. */
export async function call(path, options = {}) {
  const headers = { Accept: "application/json", ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "the service does not answer");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => null);
  const again = response.headers.get("Retry-After");
  const text = typeof said?.error === "string" ? said.error : `the service answered ${response.status}`;
  throw new Refusal(response.status, again ? `${text} (again in ${again} s)` : text);
}

const get = async (path) => (await call(path)).json();

/** The one model that is served: name, shape of an input, and all that its answers stand under. */
export async function model() {
  const { parameters } = await get("v2");
  const found = await get(`v2/models/${encodeURIComponent(parameters.model)}`);
  const [{ name: input, shape }] = found.inputs;
  return { ...found.parameters, name: found.name, input, shape: shape.slice(1), classNames: found.class_names ?? [] };
}

/** Names of examples; an example's number is its place. */
export const examples = () => get("v2/examples");
export const example = async (number) => (await call(`v2/examples/${number}`, { headers: { Accept: "image/png" } })).blob();
export const certificatePath = (id) => `v2/certificates/${encodeURIComponent(id)}`;

/** One answer. Pictures go as they are, 8 bits a value, by the binary extension; other values as JSON. */
export async function infer({ name, input, shape }, values, parameters, signal) {
  const tensor = { name: input, shape: [1, ...shape] };
  const path = `v2/models/${encodeURIComponent(name)}/infer`, outputs = OUTPUTS.map((output) => ({ name: output }));
  const asked = { method: "POST", signal, headers: { "Content-Type": "application/json" } };
  if (values instanceof Uint8Array) {
    Object.assign(tensor, { datatype: "UINT8", parameters: { binary_data_size: values.length } });
    const head = new TextEncoder().encode(JSON.stringify({ inputs: [tensor], outputs, parameters }));
    asked.headers = { "Content-Type": "application/octet-stream", "Inference-Header-Content-Length": String(head.length) };
    asked.body = Uint8Array.from([...head, ...values]);
  } else {
    asked.body = JSON.stringify({ inputs: [{ ...tensor, datatype: "FP32", data: values }], outputs, parameters });
  }
  const found = await (await call(path, asked)).json();
  const [one, all] = [{}, {}];
  for (const output of found.outputs) {
    all[output.name] = output.data;
    one[output.name] = output.data[0];
  }
  return { ...one, votes: all.votes, parameters: found.parameters ?? {} };
}
