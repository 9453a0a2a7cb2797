/** The list of leases, one for each resource, with a search that the URL holds. */

import { useQuery } from "@tanstack/react-query";
import { Button, Icon, PageHead } from "leasehold-ui";
import { useId } from "react";
import { FilterInput, useFilters } from "../../app/filters.js";
import { SEARCH_FIELD_ID } from "../../app/search-field.js";
import { ApiError } from "../../data/api.js";
import { whoQuery } from "../../data/who.js";
import { Empty, Failure, Skeleton } from "../../ui/states.js";
import { LeaseList } from "./lease-list.js";
import { useLeaseRows } from "./lease-ranges.js";
import { LEASE_STATES, parseLeaseSearch, withStates } from "./lease-search.js";

export function LeasesPage() {
  const [{ q: searched = "" }, filter] = useFilters();
  const search = (text: string) => filter({ q: text || undefined });
  const { query, problems } = parseLeaseSearch(searched);
  const rows = useLeaseRows(query);
  const count = `${rows.rows.length.toLocaleString("en")}${rows.more ? " or more" : ""}`;
  return (
    <>
      <PageHead title="Leases" about="The latest grant of each resource, live or ended.">
        <p role="status" className="text-sm text-muted tabular">
          {rows.isPending ? "" : count}
        </p>
      </PageHead>
      <SearchField searched={searched} search={search} problems={problems} />
      <StateChoice
        chosen={query.state ?? []}
        choose={(states) => search(withStates(searched, states))}
      />
      <div className="mt-4">
        {rows.error && rows.rows.length === 0 ? (
          <NotListed {...{ error: rows.error, retry: rows.retry, search }} />
        ) : rows.isPending ? (
          <Skeleton lines={10} />
        ) : rows.rows.length === 0 && !rows.more ? (
          <NoneFound isSearch={searched !== ""} clear={() => search("")} />
        ) : (
          <LeaseList {...rows} />
        )}
      </div>
    </>
  );
}

function SearchField({
  searched,
  search,
  problems,
}: {
  readonly searched: string;
  readonly search: (text: string) => void;
  readonly problems: readonly string[];
}) {
  const aboutId = useId();
  return (
    <search className="grid gap-1.5">
      <div className="relative">
        <span className="pointer-events-none absolute top-2.5 left-3 text-muted">
          <Icon name="search" />
        </span>
        <FilterInput
          label="Search leases"
          placeholder="prefix holder:name state:live >5m"
          value={searched}
          onFilter={(text = "") => search(text)}
          id={SEARCH_FIELD_ID}
          aria-describedby={aboutId}
          className="pl-9 font-mono"
        />
      </div>
      <div id={aboutId} className="text-xs text-muted">
        {problems.length > 0 ? (
          <span role="alert" className="text-danger">
            {problems.join("; ")}
          </span>
        ) : (
          <Words />
        )}
      </div>
    </search>
  );
}

function Words() {
  const words = [
    ["orders/", "a prefix"],
    ["holder:name", "held by name"],
    [">5m", "held for longer"],
    ["<10s", "expires within"],
    ["is:renewed", "renewed at least once"],
  ] as const;
  return (
    <span className="flex flex-wrap gap-x-4 gap-y-1">
      {words.map(([word, meaning]) => (
        <span key={word}>
          <code className="font-mono text-ink">{word}</code> {meaning}
        </span>
      ))}
    </span>
  );
}

type State = (typeof LEASE_STATES)[number];

function StateChoice({
  chosen,
  choose,
}: {
  readonly chosen: readonly State[];
  readonly choose: (states: readonly State[]) => void;
}) {
  const look =
    "rounded-full! px-3! aria-pressed:border-accent aria-pressed:bg-accent-soft aria-pressed:text-accent";
  const toggled = (state: State) =>
    chosen.includes(state) ? chosen.filter((one) => one !== state) : [...chosen, state];
  return (
    <div role="group" aria-label="States" className="mt-3 flex flex-wrap gap-1.5">
      <Button small className={look} aria-pressed={chosen.length === 0} onClick={() => choose([])}>
        any state
      </Button>
      {LEASE_STATES.map((state) => (
        <Button
          {...{ key: state, small: true, className: look }}
          aria-pressed={chosen.includes(state)}
          onClick={() => choose(toggled(state))}
        >
          {state}
        </Button>
      ))}
    </div>
  );
}

function NoneFound({
  isSearch,
  clear,
}: {
  readonly isSearch: boolean;
  readonly clear: () => void;
}) {
  if (!isSearch) {
    return (
      <Empty icon="lease" title="No leases yet">
        Leases appear here as soon as a client acquires one. Try{" "}
        <code className="font-mono">leasehold run RESOURCE -- COMMAND</code>
      </Empty>
    );
  }
  return (
    <Empty title="No matching leases">
      <Button small onClick={clear}>
        Show all
      </Button>
    </Empty>
  );
}

/** A key that is limited to prefixes can list only resources with one of them. */
function NotListed({
  error,
  retry,
  search,
}: {
  readonly error: unknown;
  readonly retry: () => void;
  readonly search: (text: string) => void;
}) {
  const prefixes = useQuery(whoQuery).data?.prefixes ?? [];
  const isOutside = error instanceof ApiError && error.code === "FORBIDDEN" && prefixes.length > 0;
  if (!isOutside) return <Failure error={error} retry={retry} />;
  return (
    <Empty icon="key" title="You may list the leases of some prefixes alone">
      <span className="flex flex-wrap justify-center gap-2 pt-1">
        {prefixes.map((prefix) => (
          <Button key={prefix} small onClick={() => search(`"${prefix}"`)}>
            {prefix}
          </Button>
        ))}
      </span>
    </Empty>
  );
}
