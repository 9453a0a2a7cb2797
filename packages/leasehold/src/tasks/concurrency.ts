/** The concurrency keys of a kind, as `defineTask` takes them. */
import {
  checkFunction,
  checkInteger,
  checkName,
  checkNotPromise,
  InvalidOptionError,
} from "../lease/index.js";
import { checkRate } from "./limit-client.js";
import type { Concurrency, Rate } from "./port.js";

/** Options for the concurrency keys of a kind. */
export interface KeyOptions<Input> {
  /**
   * Limits how many tasks of the kind run at once, for each key that this returns: `(data) => data.accountId`. Up to 256
   * bytes. Null: the task runs whatever else runs. A key belongs to the queue of the task. Default: no
   * task has a key.
   */
  concurrencyKey?: (data: Input) => string | null | undefined;
  /** Of each key, at most this many tasks hold a live lease at any time, 1 to 10,000. Default 1. */
  perKey?: number;
  /**
   * `fifo`, the default: the tasks of a key start in the order in which they were enqueued, and a task that waits for its
   * retry keeps back those behind it. `any`: by priority and time, like tasks without a key.
   */
  order?: "fifo" | "any";
  /** Of each key, at most `limit` tasks start in each window of `perMs` milliseconds. Default: as soon as others let them. */
  rate?: Rate;
}

export const KEY_OPTIONS: Readonly<Record<keyof KeyOptions<unknown>, true>> = {
  concurrencyKey: true,
  perKey: true,
  order: true,
  rate: true,
};
export const MOST_PER_KEY = 10_000;
export const ORDERS = ["fifo", "any"] as const;

type Undefinable<Options> = { readonly [Name in keyof Options]: Options[Name] | undefined };

/**
 * How a task of the kind is limited, by its data; undefined: not at all.
 * @throws InvalidOptionError
 */
export function concurrencyOf<Input>({
  concurrencyKey,
  perKey,
  order,
  rate,
}: Undefinable<KeyOptions<Input>>): ((data: Input) => Concurrency | undefined) | undefined {
  if (concurrencyKey === undefined) {
    for (const [name, value] of Object.entries({ perKey, order, rate })) {
      if (value === undefined) continue;
      throw new InvalidOptionError(name, "needs concurrencyKey, which gives each task its key");
    }
    return undefined;
  }
  checkFunction("concurrencyKey", concurrencyKey);
  if (perKey !== undefined) checkInteger("perKey", perKey, 1, MOST_PER_KEY);
  if (order !== undefined && !ORDERS.includes(order)) {
    throw new InvalidOptionError("order", `must be one of ${ORDERS.join(", ")}`);
  }
  if (rate !== undefined) checkRate("rate", rate);
  return (data) => {
    const key = concurrencyKey(data);
    if (key === undefined || key === null) return undefined;
    checkNotPromise("concurrencyKey", key, "the key");
    checkName("concurrencyKey", key);
    return { key, perKey: perKey ?? 1, order: order ?? "fifo", ...(rate && { rate }) };
  };
}
