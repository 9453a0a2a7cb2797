/** The engines for browsers, which need nothing but JavaScript and fetch. */
import type { Openers } from "./opening.js";

const http: Openers[string] = async (url, env, timeoutMs) =>
  (await import("./http/index.js")).http({ url }).open(env, timeoutMs);

export const ANYWHERE: Openers = {
  memory: async (url, env) =>
    (await import("./memory/index.js")).memory({ name: url.slice("memory:".length) }).open(env),
  http,
  https: http,
};
