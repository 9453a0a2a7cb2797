/**
 * In which turn of the event loop the requests of a tenant begin. All that has arrived would otherwise be served in one
 * turn, and a request of another tenant, which needs a few turns until it is answered, would wait for as many of those:
 *
 *   without    [ a a a a a a a a a a a a b ]──▶[ a a a a a a a a a a a a b ]──▶ b is answered
 *   with       [ a a b ]─▶[ a a b ]─▶ b is answered ─▶[ a a ]─▶[ a a ]
 *
 * Large requests take a turn each, one after the other and with turns between them, whichever tenant sends them. Small
 * ones share a turn, up to so many units of work for each tenant and kind of load; the others follow in the next
 * turns, in order. A tenant that sends less than that waits for nothing.
 */
import type { Clock } from "leasehold";
import { nextTurn } from "leasehold/internal";

/** What a request costs without its items, in items. */
export const REQUEST_WORK = 5;
/**
 * In so many turns one large request begins. Node accepts one connection in each turn, so callers that connect, among them
 * holders, would otherwise wait for as many large requests as there are connections before theirs. Idle turns take no time.
 * Those of a flood take long, and the renewals of many leases are large: they wait for no more than this time.
 */
const [TURNS_OF_LARGE, TIME_OF_LARGE_MS] = [16, 50];
/** Of one tenant and kind of load: a few milliseconds. */
const WORK_PER_TURN = 100;

interface Waiting {
  readonly work: number;
  readonly begin: () => void;
  readonly isOver: () => boolean;
}

interface Queue {
  /** What is left of this turn; negative if the last request has exceeded it. */
  left: number;
  waiting: Waiting[];
}

export class RequestTurns {
  readonly #queues = new Map<unknown, Queue>();
  /** When the next large request may begin. */
  #free: Promise<void> = Promise.resolve();
  #scheduled = false;
  readonly #clock: Clock;
  readonly #next: () => Promise<void>;

  /** @param next resolves in the next turn; default: of the event loop */
  constructor(clock: Clock, next: () => Promise<void> = nextTurn) {
    this.#clock = clock;
    this.#next = next;
  }

  /** Resolves in a turn in which no other large request begins. */
  large(): Promise<void> {
    const begun = this.#free.then(nextTurn);
    this.#free = begun.then(async () => {
      const untilMs = this.#clock.monotonic() + TIME_OF_LARGE_MS;
      for (let turn = 1; turn < TURNS_OF_LARGE && this.#clock.monotonic() < untilMs; turn += 1)
        await nextTurn();
    });
    return begun;
  }

  /**
   * @param sender a tenant and a kind of load, by identity
   * @param isOver tells in each turn whether the client has gone: such a request goes on at once, and counts as nothing
   * @returns resolves in the turn in which the request may go on; undefined: at once
   */
  small(sender: unknown, work: number, isOver = () => false): Promise<void> | undefined {
    let queue = this.#queues.get(sender);
    if (!queue) {
      queue = { left: WORK_PER_TURN, waiting: [] };
      this.#queues.set(sender, queue);
      this.#schedule();
    }
    const { left, waiting } = queue;
    if (left <= 0 || waiting.length > 0) {
      return new Promise((begin) => waiting.push({ work, begin, isOver }));
    }
    queue.left -= work;
    return undefined;
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    void this.#next().then(() => {
      this.#scheduled = false;
      for (const [sender, queue] of this.#queues) this.#serve(sender, queue);
      if (this.#queues.size > 0) this.#schedule();
    });
  }

  #serve(sender: unknown, queue: Queue): void {
    queue.left = Math.min(WORK_PER_TURN, queue.left + WORK_PER_TURN);
    queue.waiting = queue.waiting.filter(({ work, begin, isOver }) => {
      const over = isOver();
      if (queue.left <= 0 && !over) return true;
      if (!over) queue.left -= work;
      begin();
      return false;
    });
    if (queue.left === WORK_PER_TURN) this.#queues.delete(sender);
  }
}
