/** The engines for browsers, which need nothing but JavaScript and fetch. */
import { type Engines, split } from "./opening.js";

const http: Engines[string] = async (url) => (await import("./http/index.js")).http({ url });

export const ANYWHERE: Engines = {
  memory: async (url) => (await import("./memory/index.js")).memory({ name: split(url, []).place }),
  http,
  https: http,
};
