/**
 * Calls to the agents of a datacenter, by fetch. The result of a call:
 *
 *   answered ─────────────────────────────▶ the response, or a permanent error
 *   refused connection, no leader ──▶ "no" ────┐ tries the next agent, each once; after
 *   reset, timeout, leader changed ─▶ "maybe" ─┘ "maybe" only if repeatable. The next call
 *                                               starts at that agent.
 *
 * An unavailable agent must not use up the time of the others: a repeatable call gives each untried agent
 * an equal share of the remaining time.
 */

import { type Env, untilAborted, withTimeout } from "../../env/index.js";
import { StoreUnavailableError } from "../../lease/index.js";
import type { Address } from "./connection-address.js";
import { type Pair, pairOf, type Transaction, type TransactionAnswer } from "./connection-api.js";
import { answeredFailure, closed, connectionFailure, parsed } from "./failures.js";

export interface Connection extends Omit<Address, "files"> {
  readonly fetch: typeof globalThis.fetch;
  readonly env: Env;
}

export interface Call {
  readonly method: "GET" | "PUT";
  /** Below `/v1/`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Statuses besides 200 that answer the call. */
  readonly accepts?: readonly number[];
  /** By the monotonic clock, for all agents together. Default: in 5 s. */
  readonly deadlineMs?: number;
  /** True if running the call twice has the same effect as once. */
  readonly repeatable: boolean;
  /** Ends the call early. */
  readonly signal?: AbortSignal;
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  /** For the next blocking query; 0 if Consul named none. */
  readonly index: number;
}

export const DEFAULT_TIMEOUT_MS = 5_000;

export class ConsulClient {
  readonly #closing = new AbortController();
  readonly #open = new Set<AbortController>();
  #at = 0;
  /** The last answer was that an agent can't serve. Its address may lead to another one by now. */
  #isDoubted = false;

  constructor(readonly connection: Connection) {}

  /** Aborts when the client is closed. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** @throws ClosedError */
  checkOpen(): void {
    if (this.closing.aborted) throw closed();
  }

  /** Aborts all calls in flight. */
  close(): void {
    this.#closing.abort();
    for (const call of this.#open) call.abort();
  }

  deadline(timeoutMs = DEFAULT_TIMEOUT_MS): number {
    return this.connection.env.clock.monotonic() + timeoutMs;
  }

  /** @throws LeaseholdError */
  async call(call: Call): Promise<Answer> {
    const { agents, env } = this.connection;
    const deadlineMs = call.deadlineMs ?? this.deadline();
    for (let tries = 1; ; tries += 1) {
      this.checkOpen();
      try {
        const leftMs = deadlineMs - env.clock.monotonic();
        const untried = call.repeatable ? Math.max(1, agents.length - tries + 1) : 1;
        return await this.#try(call, leftMs / untried);
      } catch (error) {
        if (!(error instanceof StoreUnavailableError)) throw error;
        if (error.outcome === "unknown" && !call.repeatable) throw error;
        if (tries >= agents.length || env.clock.monotonic() >= deadlineMs) throw error;
      }
    }
  }

  /** Applies all operations or none. @throws LeaseholdError */
  async transaction({ body, writes }: Transaction, deadlineMs: number): Promise<TransactionAnswer> {
    const { status, text } = await this.call({
      method: "PUT",
      path: "txn",
      // Of a write the leader decides anyway.
      query: writes ? {} : { consistent: "" },
      body,
      accepts: [409],
      deadlineMs,
      repeatable: !writes,
    });
    const { Results, Errors } = parsed<{
      Results: readonly { readonly KV: Pair }[] | null;
      Errors: readonly { readonly OpIndex: number; readonly What: string }[] | null;
    }>(text);
    const failed = (Errors ?? []).map(({ OpIndex: at, What: what }) => ({ at, what }));
    const denied = failed.find(({ what }) => what.includes("Permission denied"));
    if (denied) throw answeredFailure(403, denied.what, "its transactions");
    // No operation failed, and yet nothing was applied: never seen.
    if (status === 409 && failed.length === 0) throw answeredFailure(500, text, "its transactions");
    return { pairs: (Results ?? []).map(({ KV }) => pairOf(KV)), failed };
  }

  async #try(call: Call, timeoutMs: number): Promise<Answer> {
    if (timeoutMs < 1) {
      const why = "Consul failed: the timeout expired before the request was sent";
      throw new StoreUnavailableError(why, { outcome: "none" });
    }
    const at = this.#at;
    const { agents, env } = this.connection;
    const origin = agents[at] as string;
    const cut = new AbortController();
    const abort = () => cut.abort();
    this.#open.add(cut);
    call.signal?.addEventListener("abort", abort, { once: true });
    try {
      const answer = untilAborted(cut.signal, this.#fetch(origin, call, cut.signal));
      const { status, ...rest } = await withTimeout(env.clock, timeoutMs, answer, () => {
        abort();
        return answer;
      });
      if (status === 200 || call.accepts?.includes(status)) {
        this.#isDoubted = false;
        return { status, ...rest };
      }
      throw answeredFailure(status, rest.text, origin);
    } catch (error) {
      if (this.closing.aborted) throw closed();
      const isOverdue = cut.signal.aborted && !call.signal?.aborted;
      if (error instanceof StoreUnavailableError) this.#isDoubted = true;
      // The next call starts at another agent.
      if (this.#at === at && (isOverdue || error instanceof StoreUnavailableError)) {
        this.#at = (at + 1) % agents.length;
      }
      if (!isOverdue) throw error;
      const why = `Consul failed: ${origin} did not respond within ${Math.round(timeoutMs)} ms`;
      throw new StoreUnavailableError(why, { outcome: "unknown", cause: error });
    } finally {
      this.#open.delete(cut);
      call.signal?.removeEventListener("abort", abort);
    }
  }

  async #fetch(origin: string, call: Call, signal: AbortSignal): Promise<Answer> {
    const { fetch, token, datacenter } = this.connection;
    const query = new URLSearchParams(call.query);
    if (datacenter !== null) query.set("dc", datacenter);
    const url = `${origin}/v1/${call.path}?${query.toString()}`;
    try {
      const response = await fetch.call(undefined, url, {
        method: call.method,
        headers: {
          ...(call.body !== undefined && { "content-type": "application/json" }),
          ...(token !== null && { "x-consul-token": token }),
          // fetch keeps its connections, and an agent without a leader does not end them.
          ...(this.#isDoubted && { connection: "close" }),
        },
        ...(call.body !== undefined && { body: call.body }),
        redirect: "manual",
        signal,
      });
      const index = Number(response.headers.get("x-consul-index") ?? 0);
      return { status: response.status, text: await response.text(), index };
    } catch (cause) {
      throw connectionFailure(cause, origin);
    }
  }
}
