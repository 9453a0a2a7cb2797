/**
 * The claims of one tenant that are in the store at once. A claim with kinds may read every due task of its queues, and
 * one of many queues is a large statement. A store in this process runs one statement at a time, so what another
 * tenant asks of it waits for all claims that are there already.
 *
 *   a claim of one queue                                1 of 8 slots
 *   a claim of n queues                                 n
 *   with kinds                                          twice as many
 *   a claim that would need more                        all 8: it is alone
 *
 * The other claims of the tenant wait here, first in, first out, and leave when their time is over or their caller has
 * gone. A slot is free in the turn after its claim has ended, so that the store serves what has arrived meanwhile before
 * the tenant's next claim.
 */
import type { Clock } from "leasehold";
import { type ClaimOutcome, type ClaimRequest, nextTurn } from "leasehold/internal";
import { tooMany } from "../problems.js";

const SLOTS = 8;
const KINDS_RATIO = 2;
/** The least time for a claim in the store, however long it has waited. */
const SHORTEST_CALL_MS = 250;
const LONGEST_WAIT_MS = 10_000;
const RETRY_MS = 1_000;
const NOTHING: ClaimOutcome = { status: "claimed", tasks: [] };

interface Waiting {
  readonly slots: number;
  readonly begin: () => void;
  readonly leave: () => void;
}

interface ClaimSlotOptions {
  readonly signal?: AbortSignal;
  /** For the wait and the call together. */
  readonly timeoutMs?: number;
}

export class ClaimSlots {
  readonly #clock: Clock;
  /** In the order of arrival. */
  readonly #waiting = new Set<Waiting>();
  #free = SLOTS;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Calls `claim` when there are slots for it; with no tasks instead if the signal aborts before.
   * @param claim receives the time that remains
   * @throws TOO_MANY_REQUESTS if the time is over before
   */
  async run(
    request: Pick<ClaimRequest, "queues" | "kinds">,
    { signal, timeoutMs = LONGEST_WAIT_MS }: ClaimSlotOptions,
    claim: (timeoutMs: number) => Promise<ClaimOutcome>,
  ): Promise<ClaimOutcome> {
    const slots = slotsOf(request);
    const sinceMs = this.#clock.monotonic();
    if (this.#waiting.size > 0 || this.#free < slots) {
      const ended = await this.#wait(slots, timeoutMs, signal);
      if (ended === "gone") return NOTHING;
      if (ended === "late") {
        const detail = `claims of a tenant take turns at each instance, and this one did not begin within ${Math.round(timeoutMs)} ms: claim from fewer queues, or with fewer claims at once`;
        throw tooMany("TOO_MANY_REQUESTS", detail, RETRY_MS);
      }
    } else {
      this.#free -= slots;
    }
    try {
      const waitedMs = this.#clock.monotonic() - sinceMs;
      return await claim(Math.max(SHORTEST_CALL_MS, timeoutMs - waitedMs));
    } finally {
      void nextTurn().then(() => this.#return(slots));
    }
  }

  /** Ends the claims that wait here, with no tasks. */
  close(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const { leave } of waiting) leave();
  }

  /** Resolves when it has the slots, or without them. */
  #wait(
    slots: number,
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<"begun" | "late" | "gone"> {
    if (signal?.aborted) return Promise.resolve("gone");
    return new Promise((resolve) => {
      const end = (how: "begun" | "late" | "gone") => {
        this.#waiting.delete(waiting);
        timer.cancel();
        signal?.removeEventListener("abort", leave);
        resolve(how);
        // It may have been the one that the others wait for.
        if (how !== "begun") this.#begin();
      };
      const leave = () => end("gone");
      const waiting: Waiting = { slots, begin: () => end("begun"), leave };
      const timer = this.#clock.timer(timeoutMs, () => end("late"), { background: true });
      signal?.addEventListener("abort", leave);
      this.#waiting.add(waiting);
    });
  }

  #return(slots: number): void {
    this.#free += slots;
    this.#begin();
  }

  #begin(): void {
    for (const { slots, begin } of this.#waiting) {
      if (slots > this.#free) return;
      this.#free -= slots;
      begin();
    }
  }
}

function slotsOf({ queues, kinds }: Pick<ClaimRequest, "queues" | "kinds">): number {
  return Math.min(SLOTS, queues.length * (kinds === null ? 1 : KINDS_RATIO));
}
