/** The limits of one namespace in memory, and the last window of each rate. */
import type { RateWindow } from "../../tasks/limits.js";
import type { LimitKey, LimitScope, TaskLimit } from "../../tasks/limits-port.js";
import type { TaskRecord } from "../../tasks/record.js";

export interface KeptLimit {
  readonly scope: LimitScope;
  readonly name: string;
  readonly limit: TaskLimit;
  readonly declaredAtMs: number;
  readonly declaredBy: string;
  window: RateWindow | undefined;
}
export type Place = Pick<TaskRecord, "queue" | "kind">;

export class LimitTable {
  readonly #kept = new Map<string, KeptLimit>();

  get size(): number {
    return this.#kept.size;
  }

  get({ scope, name }: Pick<LimitKey, "scope" | "name">): KeptLimit | undefined {
    return this.#kept.get(`${scope} ${name}`);
  }
  set(kept: KeptLimit): void {
    this.#kept.set(`${kept.scope} ${kept.name}`, kept);
  }
  delete({ scope, name }: Pick<LimitKey, "scope" | "name">): boolean {
    return this.#kept.delete(`${scope} ${name}`);
  }
  all(): KeptLimit[] {
    return [...this.#kept.values()];
  }
  /** Those that a task counts for. */
  of({ queue, kind }: Place): KeptLimit[] {
    const found = [
      this.get({ scope: "kind", name: kind }),
      this.get({ scope: "queue", name: queue }),
    ];
    return found.filter((kept) => kept !== undefined);
  }
}
