/** Values that are hard to describe, and that code can throw all the same. */

/** @returns a new value each time; for some of them, `instanceof` and reading any property throw */
export const THROWN: readonly (readonly [name: string, make: () => unknown])[] = [
  ["a revoked proxy", revoked],
  ["an Error whose message getter throws", unreadable],
  ["an Error whose cause is a revoked proxy", () => new Error("x", { cause: revoked() })],
  ["an Error whose stack getter throws", () => withGetter(new Error("x"), "stack")],
  ["an object without a prototype", () => Object.create(null)],
  [
    "an object whose properties cannot be read",
    () => new Proxy({}, { get: fail, getPrototypeOf: fail }),
  ],
  ["a symbol", () => Symbol("s")],
  ["undefined", () => undefined],
];

export function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

export function unreadable(): Error {
  return withGetter(new Error("x"), "message");
}

function withGetter(error: Error, name: string): Error {
  return Object.defineProperty(error, name, { get: fail });
}

function fail(): never {
  throw new Error("it cannot be read");
}
