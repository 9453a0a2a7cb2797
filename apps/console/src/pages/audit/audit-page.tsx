import { useQuery } from "@tanstack/react-query";
import { AUDITED_ACTIONS } from "leasehold-server/internal/generator";
import { Button, PageHead } from "leasehold-ui";
import { useState } from "react";
import { FilterInput, FilterSelect, useFilters } from "../../app/filters.js";
import { SEARCH_FIELD_ID } from "../../app/search-field.js";
import { useMay, whoQuery } from "../../data/who.js";
import { Empty, Skeleton } from "../../ui/states.js";
import { notifyFailure } from "../../ui/toast.js";
import { AuditList, isBy } from "./audit-list.js";
import { type AuditFilter, exported } from "./audit-queries.js";
import { download, stamped } from "./download.js";
import { VerifyPanel } from "./verify-panel.js";

export function AuditPage() {
  const { data: who, isPending } = useQuery(whoQuery);
  const mayOperate = useMay("operate");
  return (
    <>
      <PageHead title="Audit" about="What operators and admins did, and why." />
      {isPending ? (
        <Skeleton />
      ) : who && !who.control ? (
        <Empty icon="audit" title="This server keeps no audit log">
          Keys, limits, pauses and the audit log need PostgreSQL or PGlite. Start the server with a{" "}
          <code>--control</code> database.
        </Empty>
      ) : who && !mayOperate ? (
        <Empty icon="key" title="Only operators and admins can read the audit log">
          You have the role {who.role}.
        </Empty>
      ) : (
        <Audit />
      )}
    </>
  );
}

function Audit() {
  const [{ actor, action, target }, filterBy] = useFilters();
  const filter: AuditFilter = { target, action };
  return (
    <>
      <VerifyPanel />
      <div className="mb-3 grid grid-cols-2 gap-2 lg:grid-cols-[minmax(0,2fr)_12rem_minmax(0,1fr)_auto]">
        <FilterInput
          id={SEARCH_FIELD_ID}
          className="max-lg:col-span-2"
          label="Target: exact name of a resource, task or key"
          value={target}
          onFilter={(value) => filterBy({ target: value })}
        />
        <FilterSelect
          label="Action"
          value={action}
          options={
            action === undefined || AUDITED_ACTIONS.includes(action)
              ? AUDITED_ACTIONS
              : [action, ...AUDITED_ACTIONS]
          }
          onFilter={(value) => filterBy({ action: value })}
        />
        <FilterInput label="Actor" value={actor} onFilter={(value) => filterBy({ actor: value })} />
        <Export filter={filter} actor={actor} />
      </div>
      <section aria-label="Audit entries" className="rounded-xl border bg-surface">
        <AuditList key={JSON.stringify(filter)} filter={filter} actor={actor} />
      </section>
    </>
  );
}

function Export({ filter, actor }: { filter: AuditFilter; actor: string | undefined }) {
  const [read, setRead] = useState<number>();
  const run = async () => {
    setRead(0);
    try {
      const lines = await exported(filter, (entry) => isBy(entry, actor), setRead);
      download(`${stamped("audit")}.jsonl`, lines, "application/jsonl");
    } catch (error) {
      notifyFailure(error);
    } finally {
      setRead(undefined);
    }
  };
  return (
    <Button className="max-lg:col-span-2" disabled={read !== undefined} onClick={() => void run()}>
      {read === undefined ? "Export as JSON lines" : `${read.toLocaleString("en")} read…`}
    </Button>
  );
}
