/** How much a tenant may have. What is not set is the server's own ceiling. */
export interface TenantLimits {
  /** Live leases at once. */
  readonly leases: number | null;
  /** Pending and running tasks at once. */
  readonly tasks: number | null;
  /** Requests per second of one key. */
  readonly ratePerSecond: number | null;
}

export const NO_LIMITS: TenantLimits = { leases: null, tasks: null, ratePerSecond: null };

export interface LimitStore {
  /** {@link NO_LIMITS} where none were set. */
  read(namespace: string): Promise<TenantLimits>;
}

/** Changes of limits, within an act. */
export interface LimitActs {
  /** What the change does not name stays; null takes a limit away. */
  set(namespace: string, change: Partial<TenantLimits>): Promise<TenantLimits>;
}
