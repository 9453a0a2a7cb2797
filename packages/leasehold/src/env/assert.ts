/** An invariant of ours is broken: a bug in Leasehold, never the caller's mistake. */
class InvariantError extends Error {
  override readonly name = "InvariantError";
}

/** Stops at the first step that would break a promise, in production too. */
export function invariant(condition: unknown, what: string): asserts condition {
  if (!condition) throw new InvariantError(`invariant broken: ${what}`);
}
