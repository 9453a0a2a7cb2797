/** The engines for browsers, which need nothing but JavaScript and fetch. */
import { type Engines, split } from "./opening.js";

const http: Engines[string] = async (url) => (await import("./http/index.js")).http({ url });

export const ANYWHERE: Engines = {
  memory: async (url) => {
    const { place: name } = split(url, [], "memory:NAME");
    return (await import("./memory/index.js")).memory({ name });
  },
  http,
  https: http,
};
