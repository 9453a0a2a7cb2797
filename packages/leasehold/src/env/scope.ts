/** A value that a function sets for all that it calls, across awaits, as `AsyncLocalStorage` does. */
export interface Scope<T> {
  /** The value of the innermost `run` that this code runs within. */
  getStore(): T | undefined;
  run<R>(value: T, work: () => R): R;
}

interface Host {
  getBuiltinModule?(name: "async_hooks"): {
    AsyncLocalStorage: new <T>() => Scope<T>;
  };
}

/** A new scope; undefined where the runtime has none, as in browsers. No import, so that these can load this file. */
export function newScope<T>(
  host = (globalThis as { process?: Host }).process,
): Scope<T> | undefined {
  const hooks = host?.getBuiltinModule?.("async_hooks");
  return hooks && new hooks.AsyncLocalStorage<T>();
}
