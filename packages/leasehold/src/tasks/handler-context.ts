/**
 * What a handler sees of its task. Its properties are made when they are read. They are its own, so that a handler may
 * take some and pass on the rest: `({ lease, ...rest }) => work(rest)`.
 *
 * It is a proxy because an object with getters of its own takes microseconds to make, more than all else that a worker
 * does for a task.
 */
import type { HandlerContext } from "./define.js";

class Shown {
  readonly #running: HandlerContext;

  constructor(running: HandlerContext) {
    this.#running = running;
  }

  static get(shown: Shown, key: string | symbol): unknown {
    return isShown(key) ? shown.#running[key] : Reflect.get(shown, key);
  }
}

const KEYS = [
  "task",
  "lease",
  "signal",
  "progress",
  "checkpoint",
  "lastCheckpoint",
  "log",
] as const satisfies readonly (keyof HandlerContext)[];

function isShown(key: string | symbol): key is keyof HandlerContext {
  return (KEYS as readonly unknown[]).includes(key);
}

const SHOWING: ProxyHandler<Shown> = {
  get: (shown, key) => Shown.get(shown, key),
  has: (shown, key) => isShown(key) || Reflect.has(shown, key),
  ownKeys: (shown) => [...KEYS, ...Reflect.ownKeys(shown)],
  getOwnPropertyDescriptor(shown, key) {
    if (!isShown(key)) return Reflect.getOwnPropertyDescriptor(shown, key);
    return { value: Shown.get(shown, key), enumerable: true, configurable: true };
  },
};

/** @param running has the same properties, which are read when the handler reads them */
export function handlerContext(running: HandlerContext): HandlerContext {
  return new Proxy(new Shown(running), SHOWING) as unknown as HandlerContext;
}
