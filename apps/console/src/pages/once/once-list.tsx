/** The keys of `once`: their state, by whom, when, and their value or error. */

import { useInfiniteQuery } from "@tanstack/react-query";
import type { OnceRecord } from "leasehold/internal/wire";
import { Badge, Button, durationText, Icon, type Tone } from "leasehold-ui";
import { useRef, useState } from "react";
import { MoreRows } from "../../app/more-rows.js";
import { openOnEnter, useRowKeys } from "../../app/row-keys.js";
import { useMay } from "../../data/who.js";
import { JsonView } from "../../ui/json-view.js";
import { Empty, Failure, Skeleton } from "../../ui/states.js";
import { TimeText } from "../../ui/time.js";
import { OnceDialog } from "./once-dialog.js";
import { type OnceAction, type OnceFilter, onceQuery } from "./once-queries.js";

/** The grid of the head and the rows; on a phone a row has several lines. */
const ROW =
  "grid items-center gap-x-4 gap-y-1 px-4 grid-cols-[minmax(0,1fr)_auto_auto] md:grid-cols-[minmax(0,1.5fr)_4.5rem_minmax(0,1fr)_7.5rem_4rem_minmax(0,1.5fr)_auto]";

export function OnceList({ filter }: { readonly filter: OnceFilter }) {
  const list = useRef<HTMLUListElement>(null);
  useRowKeys(list);
  const pages = useInfiniteQuery(onceQuery(filter));
  const { data, error, refetch } = pages;
  if (!data) {
    return error ? <Failure error={error} retry={() => void refetch()} /> : <Skeleton />;
  }
  const records = data.pages.flatMap(({ items }) => items);
  const isFiltered = filter.prefix !== undefined || filter.state !== undefined;
  if (records.length === 0) {
    return isFiltered ? (
      <Empty title="No keys match the filters" />
    ) : (
      <Empty icon="once" title="No keys yet">
        Keys appear here when their work has succeeded or failed. Try{" "}
        <code className="font-mono">leasehold once KEY -- COMMAND</code>
      </Empty>
    );
  }
  return (
    <>
      <div aria-hidden="true" className={`${ROW} py-2 text-xs text-muted max-md:hidden`}>
        <span>Key</span>
        <span>State</span>
        <span>By</span>
        <span>When</span>
        <span className="text-right">Failures</span>
        <span>Value or error</span>
        <span className="w-6" />
      </div>
      <ul ref={list} aria-label="Keys">
        {records.map((record) => (
          <Row key={record.key} record={record} />
        ))}
      </ul>
      <MoreRows pages={pages} />
    </>
  );
}

const STATES: Readonly<Record<OnceRecord["state"], { tone: Tone; title: string }>> = {
  done: { tone: "ok", title: "Its work has succeeded: no caller runs it again" },
  failing: { tone: "warn", title: "Its work has failed: the next caller tries again" },
  failed: { tone: "danger", title: "Its work has failed for good: no caller runs it again" },
};

function Row({ record }: { readonly record: OnceRecord }) {
  const [open, setOpen] = useState(false);
  const { key, state, by, at, failures, error } = record;
  const toggle = () => setOpen(!open);
  const what = state === "done" ? JSON.stringify(record.value) : (error ?? "");
  return (
    <li
      data-row={key}
      tabIndex={-1}
      onKeyDown={openOnEnter(toggle)}
      className="border-t focus:bg-sunken max-md:first:border-t-0"
    >
      <div className={`${ROW} py-2.5 text-sm`}>
        <span className="min-w-0 truncate font-mono text-[0.8125rem] font-medium" title={key}>
          {key}
        </span>
        <span title={STATES[state].title}>
          <Badge tone={STATES[state].tone}>{state}</Badge>
        </span>
        <span className="min-w-0 truncate max-md:order-4" title={by}>
          {by}
        </span>
        <span className="text-xs text-muted max-md:order-5 max-md:col-span-2 max-md:text-right">
          <TimeText at={at} />
        </span>
        <span className="text-right tabular max-md:sr-only">
          {failures || <span className="text-muted">–</span>}
        </span>
        <span
          className="min-w-0 truncate text-xs text-muted max-md:order-6 max-md:col-span-3"
          title={what.slice(0, 500)}
        >
          {what.slice(0, 200)}
        </span>
        <button
          type="button"
          aria-expanded={open}
          aria-label={`Details of ${key}`}
          onClick={toggle}
          className="grid size-6 place-items-center justify-self-end rounded text-muted hover:bg-sunken hover:text-ink max-md:order-3"
        >
          <Icon name={open ? "chevronDown" : "chevronRight"} size={14} />
        </button>
      </div>
      {open && <Details record={record} />}
    </li>
  );
}

function Details({ record }: { readonly record: OnceRecord }) {
  const { key, state, value, token, failures, error, nextInMs, keepUntil } = record;
  const mayOperate = useMay("operate");
  const [action, setAction] = useState<OnceAction>();
  return (
    <div className="grid gap-2 px-4 pb-3">
      {state === "done" ? (
        <JsonView value={value} name={`value of ${key}`} />
      ) : (
        <p className="rounded-lg bg-sunken px-3 py-2 font-mono text-xs break-words whitespace-pre-wrap">
          {error}
        </p>
      )}
      <div className="flex flex-wrap items-center gap-2">
        <p className="min-w-0 flex-1 text-xs text-muted">
          Fencing token {token}
          {failures > 0 && `, failed ${failures === 1 ? "once" : `${failures} times`}`}
          {nextInMs > 0 && `, next attempt in ${durationText(nextInMs)}`}
          {keepUntil !== null && (
            <>
              , kept until <TimeText at={keepUntil} />
            </>
          )}
        </p>
        {mayOperate && state !== "done" && (
          <Button small onClick={() => setAction("retry")}>
            Retry
          </Button>
        )}
        {mayOperate && (
          <Button small onClick={() => setAction("delete")}>
            Delete
          </Button>
        )}
      </div>
      {action && <OnceDialog {...{ action, record }} onClose={() => setAction(undefined)} />}
    </div>
  );
}
