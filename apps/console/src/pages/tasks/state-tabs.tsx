import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { classNames } from "leasehold-ui";
import type { Search } from "../../app/search.js";
import { countsQuery, STATES, type State } from "./task-queries.js";

/** A tab for each state. Each is a link that keeps the other filters. */
export function StateTabs({
  state,
  search,
}: {
  readonly state: State | undefined;
  readonly search: Search;
}) {
  const counts = useQuery(countsQuery).data;
  const all = counts && Object.values(counts).reduce((sum, count) => sum + count, 0);
  return (
    <nav aria-label="States" className="-mx-1 overflow-x-auto px-1 pt-1">
      <ul className="flex gap-1 border-b">
        <Tab
          name="All"
          count={all}
          current={state === undefined}
          search={{ ...search, state: undefined }}
        />
        {STATES.map((one) => (
          <Tab
            key={one}
            name={one[0]?.toUpperCase() + one.slice(1)}
            count={counts?.[one]}
            current={state === one}
            search={{ ...search, state: one }}
          />
        ))}
      </ul>
    </nav>
  );
}

interface TabProps {
  readonly name: string;
  readonly count: number | undefined;
  readonly current: boolean;
  readonly search: Search;
}

function Tab({ name, count, current, search }: TabProps) {
  return (
    <li>
      <Link
        to="/tasks"
        search={search}
        resetScroll={false}
        aria-current={current ? "true" : undefined}
        activeProps={{ "aria-current": current ? "true" : undefined }}
        className={classNames(
          "-mb-px inline-flex items-center gap-2 border-b-2 px-3 py-2 text-sm whitespace-nowrap",
          current
            ? "border-accent font-medium text-ink"
            : "border-transparent text-muted hover:text-ink",
        )}
      >
        {name}
        <span
          className={classNames(
            "rounded-full px-1.5 py-px text-2xs tabular",
            current ? "bg-accent-soft text-accent" : "bg-sunken text-muted",
          )}
        >
          {count?.toLocaleString("en") ?? "–"}
        </span>
      </Link>
    </li>
  );
}
