/**
 * One call of the store, for the rules (store-kit/): what it reads of resources, and the transactions that save what was decided.
 *
 *   applied ──▶ the outcome of each request
 *   409     ──▶ the requests whose operations failed are read, and decided again; the others are sent again
 *   no answer ▶ `failed`, `maybe`. A request that is applied late finds the record changed, or its repetition
 *               finds its change
 *
 * The store remembers the last state of a resource, so most changes need no read first.
 */
import { zip } from "../../env/index.js";
import type { Key } from "../../lease/index.js";
import type { Change, Engine, SaveResult } from "../../store-kit/index.js";
import type { Operation } from "./connection-api.js";
import type { Sessions } from "./connection-session.js";
import { failedOutcome } from "./failures.js";
import { type Place, placeOf } from "./keys.js";
import { type Call, delayed, loadedOf, type Purpose, type Version } from "./lease-load.js";
import { addedBy, leavingBefore, type Sending, sendingOf } from "./lease-save.js";
import type { OwnGrants } from "./own-grants.js";
import { entryOf, NOTHING } from "./records.js";
import { type Applied, inTransactions, type Transactor } from "./transactions.js";
import { addWaiter, type Freed, wakeHeads } from "./wait-queue.js";

/** What all calls of a store share. */
export interface Shared {
  readonly transactor: Transactor;
  readonly sessions: Sessions;
  readonly own: OwnGrants;
}

type Saving = Change<Version>;
type Result = SaveResult<Version>;

interface Sent extends Sending {
  readonly change: Saving;
  readonly place: Place;
}

/** @param ttlMs how long the session must last; null if none is needed */
export function leaseEngine(
  { transactor, sessions, own }: Shared,
  purpose: Purpose,
  ttlMs: number | null,
): Engine<Version> {
  const { client, known } = transactor;
  const { clock } = client.connection.env;
  const sentMs = clock.monotonic();
  const place = (key: Key) => placeOf(client.connection.prefix, key);
  const callIn = (session: string): Call => ({
    purpose,
    sentMs,
    session,
    sessionUntilMs: () =>
      sessions.id === session ? sessions.lastsUntilMs : Number.NEGATIVE_INFINITY,
    clock,
    own,
    freeForMs: (key, entry) => transactor.freeForMs(place(key), entry),
  });
  /** @throws LeaseholdError; nothing was sent of the call */
  const begin = async (deadlineMs: number) => {
    client.checkOpen();
    if (ttlMs !== null) await sessions.take(ttlMs, deadlineMs);
    return callIn(sessions.id ?? "");
  };
  /** @param freed is added to */
  const resultOf = (sent: Sent, answer: Applied, call: Call, freed: Freed[]): Result => {
    if ("error" in answer) {
      const failed = failedOutcome(answer.error);
      if (failed.applied === "maybe") sent.inDoubt?.();
      return failed;
    }
    const { version, wakes } = sent.change;
    if ("rejected" in answer) {
      const { rejected } = answer;
      if (rejected.some((what) => what.includes("invalid session"))) sessions.lost(call.session);
      const isDelayed = rejected.some((what) => /lock.delay/i.test(what));
      return isDelayed && { nowMs: sentMs, loaded: delayed(version) };
    }
    const { key } = version;
    const entry = sent.entryAt?.(answer.index) ?? entryOf(sent.place, answer.read);
    transactor.saw(sent.place, entry);
    if (wakes && entry.owner === null) freed.push({ ...sent, key, waiters: entry.waiters });
    if (sent.result) return sent.result(answer.index);
    return { nowMs: sentMs, loaded: loadedOf(entry, true, key, call) };
  };
  /** CreateIndex gives the order, so each waiter of a key has its own transaction; the last one shares that of the change. */
  const prepareQueues = async (changes: readonly Saving[], call: Call, deadlineMs: number) => {
    let before = changes.flatMap((change) => leavingBefore(change, place(change)));
    for (let round = 0; ; round += 1) {
      // However long this takes, all of them have their time from when the last one is sent.
      for (const change of changes) for (const one of change.joins) own.waits(change, one, sentMs);
      if (round > 0 && before.length === 0) return;
      await transactor.each(before, deadlineMs);
      before = changes.flatMap((change) => {
        const [waiter] = addedBy(change, call.session).slice(round, -1);
        const at = place(change);
        return waiter ? [{ place: at, operations: [addWaiter(at, waiter, call.session)] }] : [];
      });
    }
  };

  return {
    guess(key) {
      const entry = known.get(place(key).folder) ?? (purpose === "acquire" ? NOTHING : undefined);
      // Most renewals write nothing, and rest on what is read.
      const isWritten = purpose !== "renew" || (ttlMs ?? 0) > (entry?.record?.ttlMs ?? 0);
      if (!entry || !isWritten) return null;
      return { nowMs: sentMs, loaded: loadedOf(entry, false, key, callIn(sessions.id ?? "")) };
    },

    async load(keys, _, timeoutMs) {
      const deadlineMs = client.deadline(timeoutMs);
      try {
        const call = await begin(deadlineMs);
        const entries = await transactor.entries(keys, deadlineMs);
        const loaded = zip(keys, entries).map(([key, entry]) => {
          transactor.saw(place(key), entry);
          return loadedOf(entry, true, key, call);
        });
        return { nowMs: sentMs, keys: loaded };
      } catch (error) {
        throw failedOutcome(error, "no").error;
      }
    },

    async save(changes, _, timeoutMs) {
      const deadlineMs = client.deadline(timeoutMs);
      let call: Call;
      try {
        call = await begin(deadlineMs);
      } catch (error) {
        return changes.map(() => failedOutcome(error, "no"));
      }
      await prepareQueues(changes, call, deadlineMs);
      const results = new Map<Saving, Result>();
      const sent = changes.flatMap((change): Sent[] => {
        const at = place(change);
        const sending = sendingOf(change, at, call);
        if (typeof sending === "object" && "operations" in sending) {
          const reading: Operation[] = sending.entryAt
            ? []
            : [{ verb: "get-tree", key: at.folder }];
          return [
            { ...sending, change, place: at, operations: [...sending.operations, ...reading] },
          ];
        }
        results.set(change, sending);
        return [];
      });
      await Promise.all(
        inTransactions(sent).map(async (some) => {
          const freed: Freed[] = [];
          for (const [one, answer] of zip(some, await transactor.apply(some, deadlineMs))) {
            results.set(one.change, resultOf(one, answer, call, freed));
          }
          await wakeHeads(transactor, freed, deadlineMs);
        }),
      );
      return changes.map((change) => results.get(change) ?? false);
    },

    failed: failedOutcome,
  };
}
