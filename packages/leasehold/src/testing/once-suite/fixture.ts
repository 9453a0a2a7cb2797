/** The fixture of each test: a store of records, names of its own, and control of time. */
import { newLeaseId, sleep, systemClock, systemRandom } from "../../env/index.js";
import type { AcquireOutcome } from "../../lease/index.js";
import {
  type FailOnceRequest,
  type OnceGrant,
  type OnceStore,
  type OnceView,
  resourceOf,
  type SucceedRequest,
} from "../../once/port.js";
import { only } from "../calls.js";
import type { Expect } from "../framework.js";

/** A store under test. */
export interface OpenedOnceStore {
  readonly store: OnceStore;
  /** Moves the store's clock. Without it the suite waits in real time. */
  advance?(ms: number): Promise<void>;
  close(): Promise<void>;
}

export class Fixture {
  readonly namespace: string;
  readonly store: OnceStore;
  readonly shortMs: number;
  readonly #opened: OpenedOnceStore;
  readonly #expect: Expect;

  constructor(
    opened: OpenedOnceStore,
    expect: Expect,
    namespace = `suite-${newLeaseId(systemRandom)}`,
  ) {
    this.namespace = namespace;
    [this.#opened, this.#expect, this.store] = [opened, expect, opened.store];
    this.shortMs = Math.max(200, opened.store.leases.capabilities.ttl.minMs);
  }

  /** Of another namespace of the same store. */
  beside(name: string): Fixture {
    return new Fixture(this.#opened, this.#expect, `${this.namespace}-${name}`);
  }

  /** Takes the lease of a key. */
  async hold(key: string, holder = "ada", ttlMs = 60_000): Promise<OnceGrant> {
    const { namespace } = this;
    const leaseId = newLeaseId(systemRandom);
    const request = { namespace, resource: resourceOf(key), leaseId, holder, ttlMs };
    const outcome: AcquireOutcome = only(await this.store.leases.acquire([request]));
    this.#expect(outcome.status).toBe("acquired");
    return { namespace, key, leaseId, token: "token" in outcome ? outcome.token : 0 };
  }

  succeed(grant: OnceGrant, more: Partial<SucceedRequest> = {}) {
    return this.store.succeed({ ...grant, value: null, keepMs: null, ...more });
  }

  fail(grant: OnceGrant, more: Partial<FailOnceRequest> = {}) {
    return this.store.fail({ ...grant, error: "no", maxAttempts: null, retryDelayMs: 0, ...more });
  }

  async view(key: string): Promise<OnceView> {
    const view = await this.store.get({ namespace: this.namespace, key });
    if (!view) throw new Error(`${key} has a record`);
    return view;
  }

  /** Where steps cost no real time there may be more of them. */
  get steps(): number {
    return this.#opened.advance ? 400 : 150;
  }

  pass(ms: number): Promise<void> {
    return this.#opened.advance?.(ms + 1) ?? sleep(systemClock, ms + 1);
  }

  /** What is to be seen of the lease of a key. */
  async lease(key: string) {
    const [view] = await this.store.leases.get([
      { namespace: this.namespace, resource: resourceOf(key) },
    ]);
    return view;
  }
}
