/** Stores that apply a call and lose its answer, or refuse it, as a test has drawn; they write down what they answered. */
import { asStoreError, type Failed } from "../../../packages/leasehold/src/lease/index.js";
import type { Stores } from "../../../packages/leasehold/src/stores/source.js";
import { instead } from "../worlds/instead.js";

/** lost: applied, and said to be unknown; thrown: applied, and then an error; refused: not applied. */
export type Loss = "none" | "lost" | "thrown" | "refused";

const LOSABLE = {
  leases: ["acquire", "renew", "release", "revoke"],
  tasks: ["enqueue", "heartbeat", "complete", "fail", "requeue"],
} as const;

export interface Lossy {
  readonly stores: Stores;
  /** How often each outcome was answered: `acquire held`. */
  readonly answered: ReadonlyMap<string, number>;
  /** What becomes of the next calls, one each. */
  next(...losses: readonly Loss[]): void;
}

export function lossy(stores: Stores): Lossy {
  const losses: Loss[] = [];
  const answered = new Map<string, number>();
  const failed = (operation: string, applied: Failed["applied"]): Failed => ({
    status: "failed",
    applied,
    retryable: true,
    error: asStoreError(new Error(`${operation} was cut`), applied),
  });
  const through = (store: object, operation: string) => {
    const call = (Reflect.get(store, operation) as Call).bind(store);
    const answer = async (requests: readonly unknown[], options: unknown) => {
      const loss = losses.shift() ?? "none";
      if (loss === "refused") return requests.map(() => failed(operation, "no"));
      const outcomes = await call(requests, options);
      if (loss === "none") return outcomes;
      if (loss === "thrown") throw new Error(`${operation} was cut`);
      return requests.map(() => failed(operation, "maybe"));
    };
    return async (requests: readonly unknown[], options: unknown) => {
      let outcomes: readonly { readonly status: string }[] = requests.map(() => THROWN);
      try {
        outcomes = await answer(requests, options);
        return outcomes;
      } finally {
        for (const { status } of outcomes) {
          const name = `${operation} ${status}`;
          answered.set(name, (answered.get(name) ?? 0) + 1);
        }
      }
    };
  };
  const over = <Store extends object>(store: Store, operations: readonly string[]) =>
    instead(store, Object.fromEntries(operations.map((name) => [name, through(store, name)])));
  const claims = over(stores.tasks, LOSABLE.tasks);
  return {
    stores: {
      ...stores,
      leases: over(stores.leases, LOSABLE.leases),
      tasks: instead(claims, {
        async claim(...given: Parameters<Stores["tasks"]["claim"]>) {
          const loss = losses.shift() ?? "none";
          if (loss === "refused") return failed("claim", "no");
          const outcome = await stores.tasks.claim(...given);
          return loss === "none" ? outcome : failed("claim", "maybe");
        },
      }),
    },
    answered,
    next: (...more) => void losses.push(...more),
  };
}
const THROWN = { status: "failed" };
type Call = (requests: readonly unknown[], options: unknown) => Promise<{ status: string }[]>;
