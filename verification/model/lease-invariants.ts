/** What must hold at any time while a program of leases runs. */
import { ClosedError } from "leasehold";
import { RESERVED_MS } from "leasehold/port";
import { type Call, type Held, type LeaseState, NOTICED_MS, PROMPT_MS } from "./lease-state.js";

/** What must hold at any time. */
export function lookAtLeases(state: LeaseState): void {
  const alive = new Map<string, Held>();
  for (const held of state.held) {
    if (held.client.isRunning) lookAt(state, held, alive);
  }
  lookForUnused(state);
  lookForPositions(state);
  for (const call of state.calls) lookAtCall(state, call);
}

function lookAt(state: LeaseState, held: Held, alive: Map<string, Held>): void {
  const { site } = state;
  const { client, lease, granted, reasons } = held;
  const { nowMs } = site;
  const named = `the lease of ${client.name} on ${granted.resource}`;
  const isAlive = lease.checkAlive();
  site.expect(lease.remainingMs() > 0 === isAlive, `${named} is alive while time is left`);
  if (isAlive) {
    const other = alive.get(granted.resource);
    const isOverlapped = granted.isOverlapped || other?.granted.isOverlapped === true;
    site.expect(!other || isOverlapped, `${named} is held beside another one`);
    alive.set(granted.resource, held);
    site.expect(nowMs < granted.trustedUntilMs, `${named} is trusted for too long`);
    const isOwn = state.book.current(granted.resource) === granted;
    site.expect(isOwn || granted.isOverlapped, `${named} is alive, and the store's is not`);
    site.expect(reasons.length === 0, `${named} is alive after its loss`);
    if (client.closing) {
      const isAsked = lease.signal.reason instanceof ClosedError;
      site.expect(isAsked, `${named} aborts its signal when its client closes`);
    }
    const isLate = nowMs > granted.endedAtMs + held.renewEveryMs * 1.1 + NOTICED_MS;
    const mustKnow = held.autoRenew && isLate && !client.isFaulty;
    site.expect(!mustKnow, `${named} was revoked, and its holder does not know`);
    return;
  }
  site.expect(reasons.length <= 1, `${named} is lost ${reasons.length} times`);
  const isKept = state.book.current(granted.resource) === granted && granted.ended === null;
  const isReached =
    !client.losing.has("release") && !site.world.covered.has("lost call of release");
  const isLate = nowMs > held.releasedAtMs + NOTICED_MS && nowMs > client.resumedAtMs + NOTICED_MS;
  site.expect(!isKept || !isReached || !isLate, `${named} is released, and the store keeps it`);
  if (held.isReleased) return;
  const [reason] = reasons;
  if (reason === undefined) {
    // Its client has released it.
    return site.expect(client.closing !== undefined, `${named} ends without a reason`);
  }
  site.expect(lease.signal.aborted, `${named} is lost, and its signal has not aborted`);
  if (reason === "revoked") site.expect(granted.ended === "revoked", `${named} was not revoked`);
  if (reason === "taken") {
    const isTaken = state.book.last(granted.resource) !== granted;
    site.expect(isTaken, `${named} was not granted to another holder`);
  }
  if (reason === "gone" || reason === "inconsistent") site.broken(`${named} is ${reason}`);
  if (reason === "expired" && !client.isFaultySince(granted.confirmedAtMs)) {
    const isOver = nowMs >= granted.trustedUntilMs - PROMPT_MS;
    site.expect(isOver, `${named} has expired too early`);
    const isRenewed = held.autoRenew && granted.ended === null;
    site.expect(!isRenewed, `${named} was not renewed`);
  }
}

/** A grant that no caller has, because its acquire was aborted, is released soon. */
function lookForUnused(state: LeaseState): void {
  const { site } = state;
  for (const resource of state.book.resources) {
    const granted = state.book.current(resource);
    if (!granted || granted.ended !== null) continue;
    const client = site.clients.find(({ name }) => name === granted.holder);
    if (!client || client.isFaultySince(granted.grantedAtMs)) continue;
    const held = state.held.find((each) => each.granted === granted);
    const sinceMs = held ? Infinity : granted.grantedAtMs;
    const isLate = site.nowMs > sinceMs + NOTICED_MS;
    site.expect(!isLate, `${client.name} was granted ${resource}, and no caller has it`);
  }
}

/** Only the first caller of a client contends with others, so the client has one position in the queue. */
function lookForPositions({ site, book }: LeaseState): void {
  for (const resource of book.resources) {
    for (const { name, isFaulty } of site.clients) {
      const positions = book.positions(resource, name, site.nowMs - NOTICED_MS);
      site.expect(isFaulty || positions <= 1, `${name} has ${positions} positions for ${resource}`);
    }
  }
}

function lookAtCall(state: LeaseState, call: Call): void {
  const { site, book } = state;
  const { client, resource } = call;
  const { nowMs } = site;
  const named = `${client.name}'s acquire of ${resource}`;
  if (client.isRunning && !client.isFaulty) {
    const isOver = call.isAborted || client.closing !== undefined;
    site.expect(!isOver, `${named} is aborted or closed, and not answered`);
    const lateMs = nowMs - call.sinceMs - call.waitMs;
    site.expect(lateMs <= NOTICED_MS, `${named} is not answered in time`);
  }
  if (!call.isQueued) return;
  const isFirst = [...state.calls].find(
    (other) => other.isQueued && other.client === client && other.resource === resource,
  );
  const isOwn = state.held.some(
    ({ lease, granted }) =>
      granted.resource === resource && granted.holder === client.name && lease.checkAlive(),
  );
  const isHead = client.isRunning && isFirst === call && !isOwn;
  if (!isHead) call.headSinceMs = Infinity;
  else if (call.headSinceMs === Infinity) call.headSinceMs = nowMs;
  const isEligible =
    isHead &&
    !client.isFaulty &&
    client.closing === undefined &&
    nowMs >= book.freeFor(resource, client.name);
  if (!isEligible) call.eligibleSinceMs = Infinity;
  else if (call.eligibleSinceMs === Infinity) call.eligibleSinceMs = nowMs;
  // No store notifies of an expiry: a waiter attempts when the reservations of the waiters that were ahead have passed.
  const ended = book.last(resource)?.ended;
  const isHeadAlive = site.clients.every((each) => !each.isFaulty);
  const isNotified = isHeadAlive && (ended === "released" || ended === "revoked");
  const mostMs = NOTICED_MS + (isNotified ? 0 : RESERVED_MS * (site.clients.length - 1));
  const isLate = nowMs > call.eligibleSinceMs + mostMs;
  site.expect(!isLate, `${named} waits, and the resource is free`);
}
