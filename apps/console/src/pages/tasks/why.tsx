/** "Why isn't this running?": the server's reasons, most important first. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Why as Answer } from "leasehold/internal/wire";
import { durationText, Icon, type IconName } from "leasehold-ui";
import { Failure, Skeleton } from "../../ui/states.js";
import { whyQuery } from "./task-queries.js";

type Reason = Answer["reasons"][number];

const ICONS: Readonly<Record<string, IconName>> = {
  scheduled: "clock",
  retrying: "restart",
  paused: "pause",
  noWorker: "worker",
  key: "key",
  limit: "filter",
  rate: "clock",
  behind: "menu",
  due: "play",
  running: "play",
  done: "check",
  dead: "warning",
  cancelled: "close",
  expired: "clock",
};

export function Why({ id }: { readonly id: string }) {
  const { data, error, refetch } = useQuery(whyQuery(id));
  if (!data) {
    return error ? <Failure error={error} retry={() => void refetch()} /> : <Skeleton lines={2} />;
  }
  return (
    <ol aria-label="Reasons" className="grid gap-2.5 px-4 py-3.5">
      {data.reasons.map((reason) => (
        <li key={reason.text} className="flex items-start gap-2.5 text-sm">
          <span className="mt-0.5 text-warn">
            <Icon name={ICONS[reason.code] ?? "events"} />
          </span>
          <span className="min-w-0 first-letter:uppercase">
            {reason.text}
            <More reason={reason} />
          </span>
        </li>
      ))}
    </ol>
  );
}

function More({ reason: { code, inMs } }: { readonly reason: Reason }) {
  if (code === "noWorker") {
    return (
      <Link to="/workers" className="ml-2 text-accent underline underline-offset-2">
        Workers
      </Link>
    );
  }
  if (inMs === null || inMs <= 0) return null;
  return <span className="ml-2 text-muted tabular">in {durationText(inMs)}</span>;
}
