/** What the tests of wait queues share: requests, and an end for all that a test has opened. */
import { newLeaseId, systemRandom } from "../../../packages/leasehold/src/env/index.js";
import type { AcquireRequest } from "../../../packages/leasehold/src/lease/index.js";

export const LONG_MS = 60_000;
/** A waiter without a notification polls no earlier than after this time. */
export const POLL_AT_LEAST_MS = 1_400;

/** Closes what was opened, the last first. */
export class Opened {
  readonly #closing: (() => Promise<unknown>)[] = [];

  later<T extends { close(): Promise<unknown> }>(opened: T): T {
    this.onClose(() => opened.close());
    return opened;
  }

  onClose(close: () => Promise<unknown>): void {
    this.#closing.unshift(close);
  }

  async closeAll(): Promise<void> {
    for (const close of this.#closing.splice(0)) await close();
  }
}

export function requestOf(resource: string, change: Partial<AcquireRequest> = {}): AcquireRequest {
  return {
    namespace: "default",
    resource,
    leaseId: newLeaseId(systemRandom),
    holder: "h",
    ttlMs: LONG_MS,
    ...change,
  };
}
