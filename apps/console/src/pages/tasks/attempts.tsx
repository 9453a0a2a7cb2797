/** The attempts of a task over time, one bar each in the colour of its token. */

import { Link } from "@tanstack/react-router";
import type { TaskDetails } from "leasehold/internal/wire";
import { Badge, durationText, Token, type Tone, tokenStyle } from "leasehold-ui";
import { ExpiryBar } from "../../ui/expiry-bar.js";
import { beginning } from "../../ui/json-view.js";
import { Empty } from "../../ui/states.js";
import { TimeText, useNow } from "../../ui/time.js";
import { Progress } from "./progress.js";

export type Attempt = TaskDetails["attempts"][number];

const TONES: Readonly<Record<NonNullable<Attempt["result"]>, Tone>> = {
  done: "ok",
  failed: "danger",
  expired: "warn",
  returned: "plain",
  cancelled: "warn",
};

interface Props {
  readonly task: TaskDetails;
  /** When the response arrived. */
  readonly answeredAtMs: number;
}

export function Attempts({ task, answeredAtMs }: Props) {
  const nowMs = useNow(250);
  const { attempts } = task;
  if (attempts.length === 0) {
    const title = task.state === "expired" ? "No worker began it in time" : "No attempts yet";
    return <Empty icon="worker" title={title} />;
  }
  const fromMs = Date.parse(attempts[0]?.startedAt ?? "");
  const ends = attempts.map(({ endedAt }) => (endedAt === null ? nowMs : Date.parse(endedAt)));
  const span: Span = { fromMs, forMs: Math.max(1, ...ends.map((end) => end - fromMs)) };
  return (
    <ol aria-label="Attempts" className="divide-y">
      {attempts.toReversed().map((attempt) => (
        <AttemptRow
          key={attempt.grantId}
          {...{ attempt, span, nowMs, answeredAtMs }}
          taskId={task.id}
          remainingMs={attempt.endedAt === null ? task.remainingMs : null}
        />
      ))}
    </ol>
  );
}

interface Span {
  readonly fromMs: number;
  readonly forMs: number;
}

interface RowProps {
  readonly attempt: Attempt;
  readonly taskId: string;
  readonly span: Span;
  readonly nowMs: number;
  readonly answeredAtMs: number;
  /** The remaining time of the attempt's lease; null: the attempt has ended. */
  readonly remainingMs: number | null;
}

function AttemptRow({ attempt, taskId, span, nowMs, answeredAtMs, remainingMs }: RowProps) {
  const { attempt: number, processor, grantId, fencingToken, ttlMs } = attempt;
  const { startedAt, heartbeatAt, endedAt, result, error, progress } = attempt;
  const endMs = endedAt === null ? nowMs : Date.parse(endedAt);
  return (
    <li className="grid gap-2 px-4 py-3.5 text-sm">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <span className="w-5 text-right text-muted tabular">{number}</span>
        <Token token={fencingToken} />
        <span className="min-w-0 truncate font-medium">{processor}</span>
        <Badge tone={result === null ? "accent" : TONES[result]}>{result ?? "running"}</Badge>
        <span className="ml-auto text-xs text-muted tabular">
          {durationText(Math.max(0, endMs - Date.parse(startedAt)))}
        </span>
      </div>
      <Bar attempt={attempt} span={span} endMs={endMs} />
      {remainingMs !== null && (
        <div className="grid grid-cols-[auto_1fr] items-center gap-3 text-xs text-muted">
          <span>time left</span>
          <ExpiryBar token={fencingToken} {...{ remainingMs, ttlMs, answeredAtMs }} />
        </div>
      )}
      <dl className="flex flex-wrap gap-x-5 gap-y-1 text-xs text-muted">
        <Fact name="started">
          <TimeText at={startedAt} />
        </Fact>
        {heartbeatAt !== null && (
          <Fact name="last heartbeat">
            <TimeText at={heartbeatAt} />
          </Fact>
        )}
        {endedAt !== null && (
          <Fact name="ended">
            <TimeText at={endedAt} />
          </Fact>
        )}
        <Fact name="TTL">{durationText(ttlMs)}</Fact>
        <Fact name="lease">
          <Link
            to="/leases/$resource"
            params={{ resource: `task:${taskId}` }}
            className="font-mono text-2xs underline underline-offset-2"
          >
            {grantId}
          </Link>
        </Fact>
      </dl>
      {error !== null && (
        // The reason of a task that was put off is no fault.
        <pre
          className={`overflow-x-auto rounded-md px-3 py-2 font-mono text-xs whitespace-pre-wrap break-words ${
            result === "returned" ? "bg-sunken" : "bg-danger-soft text-danger"
          }`}
        >
          {beginning(error, 4_000)}
        </pre>
      )}
      {progress !== null && <Progress value={progress} />}
    </li>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: React.ReactNode }) {
  return (
    <div className="flex gap-1.5">
      <dt>{name}</dt>
      <dd className="text-ink">{children}</dd>
    </div>
  );
}

interface BarProps {
  readonly attempt: Attempt;
  readonly span: Span;
  readonly endMs: number;
}

/** An attempt on the axis from the first start to the last end. The tick marks the last heartbeat. */
function Bar({ attempt: { fencingToken, startedAt, heartbeatAt }, span, endMs }: BarProps) {
  const share = (ms: number) => Math.max(0, Math.min(100, ((ms - span.fromMs) / span.forMs) * 100));
  const left = share(Date.parse(startedAt));
  const width = share(endMs) - left;
  return (
    <div
      aria-hidden="true"
      className="relative h-3 rounded bg-sunken"
      style={tokenStyle(fencingToken)}
    >
      <div
        className="token-fill absolute inset-y-0 min-w-1 rounded"
        style={{ left: `min(${left}%, 100% - 4px)`, width: `${width}%` }}
      />
      {heartbeatAt !== null && (
        <div
          className="absolute inset-y-0.5 w-0.5 rounded bg-surface"
          style={{ left: `calc(${share(Date.parse(heartbeatAt))}% - 1px)` }}
        />
      )}
    </div>
  );
}
