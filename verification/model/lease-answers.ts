/** What the answer to an acquire must be. */
import { type Lease, LeaseUnavailableError } from "leasehold";
import {
  type Call,
  type Held,
  type LeaseState,
  NOTICED_MS,
  PROMPT_MS,
  REASON,
} from "./lease-state.js";
import { codeOf } from "./site.js";

/** The caller has a lease: it must be the one that the store has granted it. */
export function onGranted(state: LeaseState, call: Call, lease: Lease): void {
  const { site, book } = state;
  const { client, resource, ttlMs, autoRenew } = call;
  const granted = book.grants.get(lease.leaseId);
  const named = `the lease of ${client.name} on ${resource}`;
  if (!granted) return site.broken(`${named} was never granted`);
  const isLast = book.last(resource) === granted || granted.isOverlapped;
  site.expect(isLast, `${named} is not what the store has granted last`);
  site.expect(!call.isAborted, `${named} was not wanted any more`);
  site.expect(granted.token === lease.token, `${named} has the token ${granted.token}`);
  site.expect(granted.holder === client.name, `${named} was granted to ${granted.holder}`);
  site.expect(granted.grantedAtMs >= call.sinceMs, `${named} was granted for this call`);
  site.expect(
    state.held.every((held) => held.granted !== granted),
    `${named} was granted once`,
  );
  const earlier = [...state.calls].filter(
    (other) =>
      other.isQueued && call.isQueued && other.client === client && other.resource === resource,
  );
  site.expect(
    earlier.every(
      (other) => other.number > call.number || other.isAborted || client.closing !== undefined,
    ),
    `${named} goes to the caller that has waited longest`,
  );
  const overtaken = [...state.calls].find(
    (other) =>
      other.isQueued &&
      other.client !== client &&
      other.resource === resource &&
      !other.client.isFaultySince(other.sinceMs) &&
      Math.max(other.headSinceMs, state.book.attemptsAtMs(resource, other.client.name)) +
        NOTICED_MS <
        Math.min(granted.grantedAtMs, call.headSinceMs, call.sinceMs),
  );
  site.expect(!overtaken, () => `${named} overtakes ${overtaken?.client.name}`);
  const held: Held = {
    client,
    lease,
    granted,
    autoRenew,
    renewEveryMs: ttlMs / 3,
    reasons: [],
    overAtMs: Infinity,
    isReleased: false,
    releasedAtMs: Infinity,
    answeredAtMs: Infinity,
  };
  lease.onLost((reason) => {
    held.reasons.push(reason);
    held.overAtMs = site.nowMs;
    site.count(`lost: ${reason}`);
  });
  state.held.push(held);
  const leftMs = lease.remainingMs();
  const trustMs = granted.trustedUntilMs - site.nowMs;
  site.expect(leftMs <= trustMs, `${named} is trusted for ${leftMs} ms, of at most ${trustMs}`);
  if (!client.isFaulty) {
    site.expect(leftMs >= trustMs - PROMPT_MS, `${named} is trusted for ${leftMs} ms only`);
  }
}

/** A caller that does not wait is refused: the resource was held. */
export function onRefused(state: LeaseState, { client, resource, sinceMs }: Call): void {
  const isHeld = state.book.wasHeldSince(resource, sinceMs);
  state.site.expect(isHeld, `${client.name} is refused ${resource}, which is free`);
}

/** @returns what the rejection says, which must be so */
export function onFailed(state: LeaseState, call: Call, error: unknown): string {
  const { site } = state;
  const { client, resource, waitMs, sinceMs } = call;
  const tookMs = site.nowMs - sinceMs;
  const named = `acquiring ${resource} for ${client.name}`;
  if (error === REASON) {
    site.expect(call.isAborted, `${named} rejects with a reason that was given`);
    return "aborted";
  }
  const code = codeOf(error);
  switch (code) {
    case "CLOSED":
      site.expect(client.closing !== undefined, `${named} is closed without a close`);
      return "closed";
    case "INVALID_OPTION":
      site.expect(call.ttlMs < 100, `${named} has valid options`);
      return "invalid";
    case "STORE_UNAVAILABLE": {
      // A short lease may have ended before its answer was read.
      const isFaulty = client.isFaultySince(sinceMs);
      site.expect(isFaulty, `${named} finds the store unavailable: ${String(error)}`);
      return "unavailable";
    }
    case "LEASE_UNAVAILABLE": {
      site.expect(call.isQueued && Number.isFinite(waitMs), `${named} has a time limit`);
      site.expect(tookMs >= waitMs, `${named} waits ${waitMs} ms, and not ${tookMs}`);
      const isLate = tookMs > waitMs + PROMPT_MS && !client.isFaultySince(sinceMs);
      site.expect(!isLate, `${named} waits ${waitMs} ms, and not ${tookMs}`);
      if (!client.isFaultySince(sinceMs)) {
        const isOther = [...state.calls].some(
          (other) => other.client === client && other.resource === resource && other !== call,
        );
        const isOwn = state.held.some(
          (held) =>
            held.client === client &&
            held.granted.resource === resource &&
            (held.overAtMs > sinceMs ||
              (held.releasedAtMs < Infinity && held.answeredAtMs >= sinceMs)),
        );
        const isHeld = isOther || isOwn || state.book.wasHeldSince(resource, sinceMs);
        site.expect(isHeld, `${named} waits in vain for a free resource`);
      }
      const says = error instanceof LeaseUnavailableError ? error.waitedMs : -1;
      site.expect(says === waitMs, `${named} says that it has waited ${says} ms`);
      return "timed out";
    }
    default:
      site.broken(`${named} fails with ${code}`);
      return code;
  }
}
