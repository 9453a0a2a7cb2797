/** The lease that code runs under, and the one around it. */
export interface Nested {
  readonly lease: object;
  readonly outer: Nested | undefined;
}

/** What the calling code runs under, across awaits, as `AsyncLocalStorage` knows it. */
export interface Scope {
  /** The value of the innermost `run` that this code runs within. */
  getStore(): Nested | undefined;
  run<R>(value: Nested, work: () => R): R;
}

interface Host {
  getBuiltinModule?(name: "async_hooks"): { AsyncLocalStorage: new () => Scope };
}

/**
 * Undefined where the runtime has none, as in browsers. No import, so that these can load this file. One for all
 * clients: Node 20 copies the value of each storage that was ever used to every promise.
 */
export const systemScope: Scope | undefined = newScope();

function newScope(): Scope | undefined {
  const host = (globalThis as { process?: Host }).process;
  const hooks = host?.getBuiltinModule?.("async_hooks");
  return hooks && new hooks.AsyncLocalStorage();
}
