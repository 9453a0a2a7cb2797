/** Calls code of the program: listeners, handlers, loggers, telemetry. Its errors must not fail or stop what calls it. */
import { propertyOf } from "./describe.js";

/**
 * Calls it now.
 * @param onError receives what it throws, or what its promise rejects with: nothing awaits the promise of an async listener, so that
 *   a rejection would end the process
 */
export function guarded(call: () => unknown, onError: (error: unknown) => void): void {
  try {
    const result = call();
    if (isPromise(result)) Promise.resolve(result).catch(onError);
  } catch (error) {
    onError(error);
  }
}

/** Whether it is what an async function returns. */
export function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof propertyOf(value, "then") === "function";
}
