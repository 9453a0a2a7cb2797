/** Terms on a time axis that ends now, in the colours of their tokens. Gaps are times without a leader. */
import { tokenStyle } from "leasehold-ui";
import { useNow } from "../../ui/time.js";
import { percentOf } from "../leases/holder-bars.js";
import type { Election } from "./elections-query.js";

/** Hidden from screen readers: the table of terms has the same content. */
export function TermStrip({ terms }: { readonly terms: Election["terms"] }) {
  const nowMs = useNow();
  const spans = terms.flatMap(({ since, endedAt, state, grantId, token }) => {
    const endMs = state === "live" ? nowMs : Date.parse(endedAt ?? "");
    const span = { grantId, token, startMs: Date.parse(since ?? ""), endMs };
    return Number.isNaN(span.startMs) || Number.isNaN(endMs) ? [] : [span];
  });
  if (spans.length === 0) return null;
  const fromMs = Math.min(...spans.map(({ startMs }) => startMs));
  const axis = { fromMs, toMs: Math.max(nowMs, fromMs + 1_000) };
  return (
    <div aria-hidden="true" className="relative mx-4 mb-3 h-3 overflow-hidden rounded bg-sunken">
      {spans.map(({ grantId, token, startMs, endMs }) => {
        const from = percentOf(axis, startMs);
        return (
          <span
            key={grantId}
            style={{
              ...tokenStyle(token),
              left: `${from}%`,
              width: `${Math.max(0, percentOf(axis, endMs) - from)}%`,
            }}
            className="token-fill absolute inset-y-0 min-w-0.5"
          />
        );
      })}
    </div>
  );
}
