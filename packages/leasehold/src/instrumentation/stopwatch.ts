/** Times the calls to any store. */
import type { Clock, LabelsOf, SpanAttributes, Telemetry } from "../env/index.js";

export interface Measuring {
  readonly clock: Clock;
  readonly telemetry: Telemetry;
}

type Labels = LabelsOf<"leasehold.store.duration">;
type Method = (requests: unknown, ...rest: unknown[]) => Promise<unknown>;

/**
 * Wraps a store so that calls of these operations are timed, each under a span. A batch counts as failed if
 * one of its requests failed.
 */
export function timed<Store extends object>(
  store: Store,
  name: Labels["store"],
  operations: readonly (Labels["operation"] & keyof Store)[],
  measuring: Measuring,
): Store {
  const methods: Record<string, Method> = {};
  for (const operation of operations) {
    const method = (store[operation] as Method).bind(store);
    let inFlight = 0;
    methods[operation] = (requests, ...rest) => {
      inFlight += 1;
      const attributes = {
        "leasehold.operation": operation,
        "leasehold.requests": Array.isArray(requests) ? requests.length : 1,
        "leasehold.in_flight": inFlight,
      };
      const call = () => method(requests, ...rest).finally(() => (inFlight -= 1));
      return time(measuring, { store: name, operation }, attributes, call);
    };
  }
  return overriding(store, methods as Partial<Store>);
}

/** The same store with some methods of its own. */
export function overriding<Store extends object>(store: Store, methods: Partial<Store>): Store {
  return new Proxy(store, {
    get(target, key) {
      const own = methods[key as keyof Store];
      if (own !== undefined) return own;
      const value: unknown = Reflect.get(target, key);
      // Methods are bound, because the proxy has no access to the store's private fields.
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

function time<T>(
  { clock, telemetry }: Measuring,
  { store, operation }: Pick<Labels, "store" | "operation">,
  attributes: SpanAttributes,
  call: () => Promise<T>,
): Promise<T> {
  return telemetry.span(`leasehold.store ${operation}`, { attributes }, async (span) => {
    const sentMs = clock.monotonic();
    let outcome: Labels["outcome"] = "failed";
    try {
      const answer = await call();
      if (![answer].flat().some(isFailed)) outcome = "ok";
      return answer;
    } finally {
      if (outcome === "failed") span.fail();
      const labels = { store, operation, outcome };
      telemetry.measure("leasehold.store.duration", labels, clock.monotonic() - sentMs);
    }
  });
}

function isFailed(outcome: unknown): boolean {
  return (outcome as { status?: unknown } | null)?.status === "failed";
}
