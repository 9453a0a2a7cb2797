/** The published kinds: their versions, and the JSON Schema of each. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Kind } from "leasehold/internal/wire";
import { useRef, useState } from "react";
import { MoreRows } from "../../app/more-rows.js";
import { openOnEnter, useRowKeys } from "../../app/row-keys.js";
import { useMay } from "../../data/who.js";
import { Button } from "../../ui/button.js";
import { Icon } from "../../ui/icon.js";
import { JsonView } from "../../ui/json-view.js";
import { ReasonDialog } from "../../ui/reason-dialog.js";
import { Empty, Failure, Skeleton } from "../../ui/states.js";
import { TimeText } from "../../ui/time.js";
import { kindsQuery, withdraw } from "./kind-queries.js";

const ROW =
  "grid items-center gap-x-4 gap-y-1 px-4 grid-cols-[minmax(0,1fr)_auto_auto] md:grid-cols-[minmax(0,1.5fr)_5rem_8rem_minmax(0,1fr)_auto]";

export function KindList() {
  const list = useRef<HTMLUListElement>(null);
  useRowKeys(list);
  const pages = useInfiniteQuery(kindsQuery());
  const { data, error, refetch } = pages;
  if (!data) {
    return error ? <Failure error={error} retry={() => void refetch()} /> : <Skeleton />;
  }
  const kinds = data.pages.flatMap(({ items }) => items);
  if (kinds.length === 0) {
    return (
      <Empty icon="task" title="No published kinds yet">
        Programs publish them:{" "}
        <code className="font-mono">defineTask(KIND, {"{ schema, publish: true }"})</code>
      </Empty>
    );
  }
  return (
    <>
      <div aria-hidden="true" className={`${ROW} py-2 text-xs text-muted max-md:hidden`}>
        <span>Kind</span>
        <span>Version</span>
        <span>Changed</span>
        <span>By</span>
        <span className="w-6" />
      </div>
      <ul ref={list} aria-label="Kinds">
        {kinds.map((kind) => (
          <Row key={`${kind.version}:${kind.kind}`} published={kind} />
        ))}
      </ul>
      <MoreRows pages={pages} />
    </>
  );
}

function Row({ published }: { readonly published: Kind }) {
  const [open, setOpen] = useState(false);
  const { kind, version, changedAt, by } = published;
  const toggle = () => setOpen(!open);
  return (
    <li
      data-row={`${kind} ${version}`}
      tabIndex={-1}
      onKeyDown={openOnEnter(toggle)}
      className="border-t focus:bg-sunken max-md:first:border-t-0"
    >
      <div className={`${ROW} py-2.5 text-sm`}>
        <span className="min-w-0 truncate font-mono text-[0.8125rem] font-medium" title={kind}>
          {kind}
        </span>
        <span className="tabular">{version}</span>
        <span className="text-xs text-muted max-md:order-4">
          <TimeText at={changedAt} />
        </span>
        <span className="min-w-0 truncate text-xs text-muted max-md:order-5" title={by}>
          {by}
        </span>
        <button
          type="button"
          aria-expanded={open}
          aria-label={`Schema of ${kind} ${version}`}
          onClick={toggle}
          className="grid size-6 place-items-center justify-self-end rounded text-muted hover:bg-sunken hover:text-ink max-md:order-3"
        >
          <Icon name={open ? "chevronDown" : "chevronRight"} size={14} />
        </button>
      </div>
      {open && <Details published={published} />}
    </li>
  );
}

function Details({ published }: { readonly published: Kind }) {
  const { kind, version, schema, publishedAt } = published;
  const mayOperate = useMay("operate");
  const [withdrawing, setWithdrawing] = useState(false);
  return (
    <div className="grid gap-2 px-4 pb-3 text-xs">
      <JsonView value={schema} name={`schema of ${kind} ${version}`} />
      <div className="flex flex-wrap items-center gap-2">
        <p className="min-w-0 flex-1 text-muted">
          Published <TimeText at={publishedAt} />,{" "}
          <Link to="/tasks" search={{ kind }} className="underline">
            tasks of this kind
          </Link>
        </p>
        {mayOperate && (
          <Button small onClick={() => setWithdrawing(true)}>
            Withdraw
          </Button>
        )}
      </div>
      {withdrawing && (
        <ReasonDialog
          name={`${kind} ${version}`}
          texts={{
            verb: "Withdraw",
            done: "withdrawn",
            about: "New tasks are no longer checked against it. A program may publish it again.",
          }}
          isDangerous
          changes={["kinds"]}
          act={(reason) => withdraw(published, reason)}
          onClose={() => setWithdrawing(false)}
        />
      )}
    </div>
  );
}
