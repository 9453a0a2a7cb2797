/** Limits of servers in tests, which cannot wait for leases of seconds, and run on busy machines. */
export const TEST_LIMITS = { shortestTtlMs: 100, lateMs: null };
