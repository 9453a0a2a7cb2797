/**
 * Leases in Redis by the rules: a lean script decides what is simple of a batch, and the rest is decided on what that has loaded.
 *
 *   batch ─ by slot ─▶ lean script ─▶ granted, renewed, released
 *                         ├─ loaded by the same script ─▶ rules ─▶ held, granted again; a save is rare
 *                         └─ several requests of a key ─▶ load ─▶ rules ─▶ save
 */
import { Recent } from "../../env/index.js";
import type { AcquireRequest, CallOptions, Grant, Key } from "../../lease/index.js";
import {
  type Engine,
  type Lean,
  type LeanOperations,
  type LeaseOperations,
  operationsOn,
} from "../../store-kit/index.js";
import type { Lane } from "./connection-servers.js";
import { failedOutcome } from "./failures.js";
import { type LeanCall, leanAcquire, leanRelease, leanRenew } from "./lean-calls.js";
import { loading, type Version } from "./lease-load.js";
import { saving } from "./lease-save.js";
import { byGroup, type ScriptCalls } from "./scripts-call.js";

const TIMEOUT_MS = 10_000;
const MOST_WAITING = 10_000;

/** @param assertOpen throws once the store is closed */
export function operationsByRules(calls: ScriptCalls, assertOpen: () => void): LeaseOperations {
  const { servers, keys } = calls;
  const { clock } = servers.env;
  const options = { clock, timeoutMs: TIMEOUT_MS };
  /** Lease ids of callers that waited, or would have: they have a position, or others probably wait behind them. */
  const waiting = new Recent<true>(MOST_WAITING);
  const leanOn =
    <Request extends Grant, Outcome>(
      lane: Lane,
      callOf: (requests: readonly Request[]) => LeanCall<Outcome>,
    ): Lean<Request, Outcome, Version> =>
    async (requests, timeoutMs) => {
      assertOpen();
      const [first] = requests;
      // The lease ids are one text.
      if (requests.some(({ leaseId }) => leaseId.length !== first?.leaseId.length)) {
        return { nowMs: 0, outcomes: requests.map(() => null), loaded: [], joined: [] };
      }
      const call = callOf(requests);
      return call.answersOf(await runScript(calls, lane, call.name, call, timeoutMs));
    };
  const lean: LeanOperations<Version> = {
    acquire: (_, { returnReplaced = false } = {}) =>
      leanOn("general", (requests) => leanAcquire(keys, requests, returnReplaced)),
    renew: leanOn("control", (requests) => leanRenew(keys, requests)),
    release: leanOn("control", (requests) => {
      const mayWake = requests.some(({ leaseId }) => waiting.get(leaseId));
      return leanRelease(keys, requests, mayWake);
    }),
  };
  const general = operationsOn(leaseEngine(calls, "general", assertOpen), options, lean);
  const control = operationsOn(leaseEngine(calls, "control", assertOpen), options, lean);
  /** All keys of a script share a group, and what happens to one group is nothing to the others. */
  const grouped =
    <Request extends Key, Options, Outcome>(
      operation: (requests: readonly Request[], options?: Options) => Promise<Outcome[]>,
    ) =>
    (requests: readonly Request[], options?: Options): Promise<Outcome[]> =>
      byGroup(
        servers,
        requests,
        (request) => keys.indexOf(request),
        (batch) => operation(batch, options),
      );
  return {
    acquire: grouped((requests: readonly AcquireRequest[], options?: CallOptions) => {
      for (const { queueMs, leaseId } of requests) if (queueMs) waiting.set(leaseId, true);
      return general.acquire(requests, options);
    }),
    renew: grouped(control.renew),
    release: grouped(control.release),
    revoke: grouped(general.revoke),
  };
}

/**
 * For keys of one group.
 * @param assertOpen throws once the store is closed
 */
export function leaseEngine(
  calls: ScriptCalls,
  lane: Lane,
  assertOpen: () => void,
): Engine<Version> {
  const { keys } = calls;
  return {
    async load(asked, needsQueue, timeoutMs) {
      assertOpen();
      const call = loading(keys, asked, needsQueue);
      return call.loadedOf(await runScript(calls, lane, "load", call, timeoutMs));
    },
    async save(changes, _, timeoutMs) {
      assertOpen();
      const call = saving(keys, changes);
      return call.savedOf(await runScript(calls, lane, "save", call, timeoutMs));
    },
    failed: failedOutcome,
  };
}

function runScript(
  { servers, scripts }: ScriptCalls,
  lane: Lane,
  name: keyof ScriptCalls["scripts"],
  { places, args }: { readonly places: readonly string[]; readonly args: readonly string[] },
  timeoutMs: number,
): Promise<unknown> {
  const deadlineMs = servers.env.clock.monotonic() + timeoutMs;
  return servers.run(lane, scripts[name], places, args, deadlineMs);
}
