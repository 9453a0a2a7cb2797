import { Link } from "@tanstack/react-router";
import { Badge, durationText, Token, tokenStyle } from "leasehold-ui";
import { ExpiryBar } from "../../ui/expiry-bar.js";
import { Figure, Panel } from "../../ui/panel.js";
import { TimeText } from "../../ui/time.js";
import { Remaining, StateBadge } from "../leases/lease-state.js";
import type { Election } from "./elections-query.js";
import { failovers } from "./failovers.js";
import { TermStrip } from "./term-strip.js";

interface Props {
  readonly election: Election;
  readonly answeredAtMs: number;
}

export function ElectionPanel({ election, answeredAtMs }: Props) {
  const { name, kind, leader, token, since, endedAt, ttlMs, remainingMs, terms } = election;
  const { lastMs, medianMs, longestMs } = failovers(terms);
  return (
    <Panel
      title={
        <Link
          to="/leases/$resource"
          params={{ resource: name }}
          className="font-mono break-all hover:underline"
        >
          {name}
        </Link>
      }
      aside={<Badge>{kind === "elector" ? "election" : "singleton"}</Badge>}
    >
      <div className="grid grid-cols-2 lg:grid-cols-[minmax(0,1.6fr)_repeat(3,minmax(0,1fr))]">
        <div className="min-w-0 px-4 py-3">
          <div className="text-xs text-muted">Leader</div>
          {leader === null ? (
            <p className="mt-1 font-semibold text-warn">
              no leader{" "}
              {endedAt !== null && (
                <span className="text-xs font-normal text-muted">
                  since <TimeText at={endedAt} />
                </span>
              )}
            </p>
          ) : (
            <div className="mt-1 grid gap-2">
              <p className="flex min-w-0 flex-wrap items-center gap-x-2.5 gap-y-1">
                <span className="min-w-0 truncate font-semibold">{leader}</span>
                <Token token={token || null} />
                <span className="text-xs text-muted">
                  <TimeText at={since} />
                </span>
              </p>
              <p className="flex items-center gap-2.5 text-xs text-muted">
                <span className="w-28">
                  <ExpiryBar token={token || null} {...{ remainingMs, ttlMs, answeredAtMs }} />
                </span>
                <Remaining {...{ remainingMs, answeredAtMs }} />
              </p>
            </div>
          )}
        </div>
        <Figure
          name="Changes"
          value={Math.max(0, terms.length - 1)}
          note={terms.length === 1 ? "one known term" : `among ${terms.length} terms`}
        />
        <Figure name="Last failover" value={textOf(lastMs)} note="time without a leader" />
        <Figure
          name="Failover, median"
          value={textOf(medianMs)}
          note={longestMs === null ? "unknown" : `at most ${durationText(longestMs)}`}
        />
      </div>
      <TermStrip terms={terms} />
      <Terms terms={terms} longestMs={longestMs} />
    </Panel>
  );
}

const textOf = (ms: number | null) => (ms === null ? "–" : durationText(ms));

function Terms({
  terms,
  longestMs,
}: {
  readonly terms: Election["terms"];
  readonly longestMs: number | null;
}) {
  return (
    <details className="border-t">
      <summary className="cursor-pointer px-4 py-2.5 text-xs text-muted hover:text-ink">
        The last {terms.length === 1 ? "term" : `${terms.length} terms`}
      </summary>
      <div className="overflow-x-auto" tabIndex={0} role="region" aria-label="Terms">
        <table className="w-full min-w-[34rem] text-sm">
          <thead>
            <tr className="border-t text-left text-xs text-muted">
              <th className="px-4 py-2 font-medium">Token</th>
              <th className="px-2 py-2 font-medium">Leader</th>
              <th className="px-2 py-2 font-medium">Since</th>
              <th className="px-2 py-2 font-medium">Ended</th>
              <th className="py-2 pr-4 pl-2 font-medium">Gap before</th>
            </tr>
          </thead>
          <tbody>
            {terms.map(({ token, holder, since, endedAt, state, grantId, vacantMs }) => (
              <tr key={grantId} className="border-t">
                <td className="px-4 py-1.5">
                  <Token token={token || null} />
                </td>
                <td className="max-w-56 truncate px-2 py-1.5">{holder}</td>
                <td className="px-2 py-1.5 text-xs">
                  <TimeText at={since} />
                </td>
                <td className="px-2 py-1.5 text-xs">
                  <span className="inline-flex items-center gap-2">
                    <StateBadge state={state} />
                    {endedAt !== null && <TimeText at={endedAt} />}
                  </span>
                </td>
                <td className="py-1.5 pr-4 pl-2 text-xs">
                  <Vacancy {...{ vacantMs, longestMs, token }} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

/** The gap before a term, with a bar relative to the longest gap. */
function Vacancy({
  vacantMs,
  longestMs,
  token,
}: {
  readonly vacantMs: number | null;
  readonly longestMs: number | null;
  readonly token: number;
}) {
  if (vacantMs === null) return <span className="text-muted">unknown</span>;
  return (
    <span className="flex items-center gap-2" style={tokenStyle(token)}>
      <span className="w-16 text-right tabular">{durationText(vacantMs)}</span>
      <span className="h-1.5 w-24">
        <span
          className="token-fill block h-full min-w-0.5 rounded-full"
          style={{ width: `${(vacantMs / Math.max(1, longestMs ?? 1)) * 100}%` }}
        />
      </span>
    </span>
  );
}
