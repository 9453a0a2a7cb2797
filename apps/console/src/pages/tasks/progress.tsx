/** The progress that a worker has reported: a fraction, a count out of a total, or any other JSON. */
import type { TaskDetails } from "leasehold/internal/wire";
import { beginning } from "../../ui/json-view.js";

type Json = TaskDetails["progress"];

interface Known {
  readonly share: number;
  readonly text: string;
}

/** Recognizes `0.4`, `{ done: 4, total: 10 }` and `{ percent: 40 }`. */
function shareOf(value: Json): Known | null {
  const part = (share: number, text: string) => (share >= 0 && share <= 1 ? { share, text } : null);
  if (typeof value === "number") return part(value, `${Math.round(value * 100)} %`);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const { done, total, percent } = value as Record<string, Json>;
  if (typeof percent === "number") return part(percent / 100, `${Math.round(percent)} %`);
  if (typeof done !== "number" || typeof total !== "number" || total <= 0) return null;
  return part(done / total, `${done} of ${total}`);
}

export function Progress({ value }: { readonly value: Json }) {
  const known = shareOf(value);
  if (!known) {
    return (
      <p className="truncate text-xs text-muted">
        progress <span className="font-mono text-ink">{beginning(JSON.stringify(value), 500)}</span>
      </p>
    );
  }
  return (
    <div className="flex items-center gap-3 text-xs text-muted">
      <span>progress</span>
      <div
        role="progressbar"
        aria-label="Progress"
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(known.share * 100)}
        className="h-1.5 flex-1 overflow-hidden rounded-full bg-sunken"
      >
        <div className="h-full rounded-full bg-accent" style={{ width: `${known.share * 100}%` }} />
      </div>
      <span className="text-ink tabular">{known.text}</span>
    </div>
  );
}
