/** Events as text, and their filters. */

import type { Activity } from "leasehold/internal/wire";
import type { Tone } from "leasehold-ui";

export const TOPICS = ["lease", "task", "operator"] as const;
export const TYPES = [
  "acquired",
  "contended",
  "renewed",
  "refused",
  "released",
  "expired",
  "revoked",
  "failed",
  "enqueued",
  "claimed",
  "completed",
  "returned",
  "cancelled",
  "retried",
  "late",
  "paused",
  "resumed",
] as const;

const TONES: Readonly<Record<string, Tone>> = {
  acquired: "accent",
  claimed: "accent",
  completed: "ok",
  contended: "warn",
  expired: "warn",
  cancelled: "warn",
  late: "warn",
  paused: "warn",
  refused: "danger",
  revoked: "danger",
  failed: "danger",
};
export const toneOf = ({ type }: Activity): Tone => TONES[type] ?? "plain";

const REVOKED: Readonly<Record<string, string>> = {
  atExpiry: "free at its expiry",
  now: "freed immediately",
};

/** Details that have no column of their own. */
export function detailsOf({
  type,
  other,
  operation,
  reason,
  count,
  queue,
  kind,
}: Activity): string {
  const task = [kind, queue === null ? null : `queue ${queue}`].filter(Boolean).join(", ");
  const said: Readonly<Record<string, string>> = {
    acquired: other === null ? "" : `previous holder: ${other}`,
    claimed: [task, other === null ? "" : `previous holder: ${other}`].filter(Boolean).join(", "),
    contended: `held by ${other ?? "another holder"}`,
    renewed: count === 1 ? "1 renewal" : `${count} renewals in one second`,
    refused: `${operation ?? "a write"}: ${reason ?? ""}`,
    revoked: REVOKED[reason ?? ""] ?? reason ?? "",
    failed: [operation, reason].filter(Boolean).join(": "),
    paused: [other, reason].filter(Boolean).join(": "),
    resumed: [other, reason].filter(Boolean).join(": "),
  };
  return said[type] ?? [task, reason].filter(Boolean).join(": ");
}

export interface ActivityFilter {
  readonly topic?: string | undefined;
  readonly type?: string | undefined;
  readonly resource?: string | undefined;
  readonly holder?: string | undefined;
}

const has = (text: string | null, part: string | undefined) =>
  part === undefined || (text?.toLowerCase().includes(part.toLowerCase()) ?? false);

export function fits(event: Activity, { topic, type, resource, holder }: ActivityFilter): boolean {
  return (
    (topic === undefined || event.topic === topic) &&
    (type === undefined || event.type === type) &&
    has(event.resource, resource) &&
    (has(event.holder, holder) || (holder !== undefined && has(event.other, holder)))
  );
}
