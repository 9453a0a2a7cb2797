/** How much a tenant may have. Without a limit, the server's own ceiling applies. */
export interface TenantLimits {
  /** Maximum number of live leases at once. */
  readonly leases: number | null;
  /** Maximum number of pending and running tasks at once. */
  readonly tasks: number | null;
  /** Requests per second at each instance. */
  readonly ratePerSecond: number | null;
}

export const NO_LIMITS: TenantLimits = { leases: null, tasks: null, ratePerSecond: null };

/** Reads the limits of tenants, which operators set. */
export interface TenantLimitStore {
  /** {@link NO_LIMITS} where none were set. */
  read(namespace: string): Promise<TenantLimits>;
}

/** Changes of limits, within an operator action. */
export interface TenantLimitActs {
  /** Limits that the change does not name stay; null removes a limit. */
  set(namespace: string, change: Partial<TenantLimits>): Promise<TenantLimits>;
}
