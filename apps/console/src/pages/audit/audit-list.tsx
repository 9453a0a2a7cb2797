import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Badge, classNames, Icon, type Tone } from "leasehold-ui";
import { useRef, useState } from "react";
import { MoreRows } from "../../app/more-rows.js";
import { openOnEnter, useRowKeys } from "../../app/row-keys.js";
import { JsonView } from "../../ui/json-view.js";
import { Empty, Failure, Skeleton } from "../../ui/states.js";
import { TimeText } from "../../ui/time.js";
import { type AuditFilter, actorText, auditQuery, type Entry } from "./audit-queries.js";

/** The actor filter applies to loaded pages only. This many pages load for it without a click. */
const PAGES_SEARCHED = 10;

/** The grid of the head and the rows; on a phone a row has several lines. */
const ROW =
  "grid items-baseline gap-x-4 gap-y-1 px-4 grid-cols-[auto_minmax(0,1fr)_auto] md:grid-cols-[3.5rem_minmax(0,1.2fr)_minmax(0,1.4fr)_minmax(0,1fr)_minmax(0,1.4fr)_7.5rem_auto]";

interface Props {
  readonly filter: AuditFilter;
  readonly actor: string | undefined;
}

export const isBy = (entry: Entry, actor: string | undefined): boolean =>
  actor === undefined || actorText(entry).toLowerCase().includes(actor.toLowerCase());

export function AuditList({ filter, actor }: Props) {
  const list = useRef<HTMLUListElement>(null);
  useRowKeys(list);
  const pages = useInfiniteQuery(auditQuery(filter));
  const { data, error, refetch } = pages;
  if (!data) {
    return error ? <Failure error={error} retry={() => void refetch()} /> : <Skeleton />;
  }
  const read = data.pages.flatMap(({ items }) => items);
  const shown = read.filter((entry) => isBy(entry, actor));
  const narrowed = actor !== undefined || Object.values(filter).some((one) => one !== undefined);
  return (
    <>
      {actor !== undefined && (
        <p role="status" className="border-b px-4 py-2 text-xs text-muted">
          {shown.length} of the {read.length.toLocaleString("en")} latest entries are by “{actor}”.
        </p>
      )}
      {shown.length === 0 ? (
        <Empty icon="audit" title={narrowed ? "No entries match the filters" : "No entries yet"}>
          {!narrowed &&
            "Actions of operators and admins appear here: who did what to which target, and why."}
        </Empty>
      ) : (
        <>
          <div aria-hidden="true" className={`${ROW} py-2 text-xs text-muted max-md:hidden`}>
            <span>Entry</span>
            <span>Action</span>
            <span>Target</span>
            <span>Actor</span>
            <span>Reason</span>
            <span>When</span>
            <span className="w-6" />
          </div>
          <ul ref={list} aria-label="Entries">
            {shown.map((entry) => (
              <Row key={entry.seq} entry={entry} />
            ))}
          </ul>
        </>
      )}
      <MoreRows
        pages={pages}
        automatic={actor === undefined || data.pages.length < PAGES_SEARCHED}
        label={actor === undefined ? "Show more" : "Search more"}
      />
    </>
  );
}

const PHASES: Readonly<Record<Entry["phase"], { tone: Tone; title: string }>> = {
  done: { tone: "plain", title: "Committed together with the action" },
  intent: { tone: "warn", title: "Written before the action, whose outcome is unknown" },
  result: { tone: "plain", title: "Written after the action" },
};

function Row({ entry }: { readonly entry: Entry }) {
  const [open, setOpen] = useState(false);
  const { seq, at, action, target, reason, phase, details, hash } = entry;
  const actor = actorText(entry);
  const toggle = () => setOpen(!open);
  return (
    <li
      data-row={seq}
      tabIndex={-1}
      onKeyDown={openOnEnter(toggle)}
      className="border-t focus:bg-sunken max-md:first:border-t-0"
    >
      <div className={`${ROW} py-2.5 text-sm`}>
        <span className="font-mono text-xs text-muted">#{seq}</span>
        <span className="min-w-0">
          <span className="font-medium">{action}</span>
          {phase !== "done" && (
            <span className="ml-2" title={PHASES[phase].title}>
              <Badge tone={PHASES[phase].tone}>{phase}</Badge>
            </span>
          )}
        </span>
        <Target entry={entry} />
        <span className="min-w-0 truncate text-xs max-md:order-5 max-md:col-span-2" title={actor}>
          <span className="text-muted md:hidden">by </span>
          {actor}
        </span>
        <span
          className={classNames(
            "min-w-0 text-xs break-words text-muted max-md:order-7 max-md:col-span-3",
            reason === null && "max-md:hidden",
          )}
        >
          {reason === null ? "–" : `“${reason}”`}
        </span>
        <span className="text-xs text-muted max-md:order-6 max-md:text-right">
          <TimeText at={at} />
        </span>
        <button
          type="button"
          aria-expanded={open}
          aria-label={`Details of entry ${seq}`}
          onClick={toggle}
          className="grid size-6 place-items-center self-center justify-self-end rounded text-muted hover:bg-sunken hover:text-ink max-md:order-3"
        >
          <Icon name={open ? "chevronDown" : "chevronRight"} size={14} />
        </button>
      </div>
      {open && (
        <div className="grid gap-2 px-4 pb-3">
          <JsonView value={details} name={`details of entry ${seq}`} />
          <p className="text-xs text-muted">
            {PHASES[phase].title}. Target{" "}
            <span className="font-mono break-all text-ink">{target}</span>, hash{" "}
            <span className="font-mono break-all text-ink">{hash}</span>
          </p>
        </div>
      )}
    </li>
  );
}

/** The target of an action on several tasks. */
const SEVERAL = /^\d+ tasks$/;

/** The target, as a link if it has a page. */
function Target({ entry: { action, target } }: { readonly entry: Entry }) {
  const look = "min-w-0 truncate max-md:order-4 max-md:col-span-3";
  const linked = `${look} hover:underline underline-offset-2`;
  if (action.startsWith("lease.") && target !== "") {
    return (
      <Link to="/leases/$resource" params={{ resource: target }} className={linked} title={target}>
        {target}
      </Link>
    );
  }
  if (action.startsWith("task.") && target !== "" && !SEVERAL.test(target)) {
    return (
      <Link to="/tasks/$id" params={{ id: target }} className={linked} title={target}>
        <span className="font-mono text-xs">{target}</span>
      </Link>
    );
  }
  return (
    <span className={look} title={target}>
      {target || "–"}
    </span>
  );
}
