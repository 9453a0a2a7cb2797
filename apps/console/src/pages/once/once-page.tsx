/** The keys of `once`, with filters that the URL holds. */
import { PageHead } from "leasehold-ui";
import { FilterInput, FilterSelect, useFilters } from "../../app/filters.js";
import { SEARCH_FIELD_ID } from "../../app/search-field.js";
import { OnceList } from "./once-list.js";

const STATES = ["done", "failing", "failed"] as const;

export function OncePage() {
  const [{ prefix, state }, filterBy] = useFilters();
  const filter = { prefix, state };
  return (
    <>
      <PageHead
        title="Once"
        about="Work that succeeds at most once: its keys, who did it, and what failed."
      />
      <div className="mb-3 grid grid-cols-[minmax(0,1fr)_10rem] gap-2">
        <FilterInput
          id={SEARCH_FIELD_ID}
          label="Prefix of the keys"
          value={prefix}
          onFilter={(value) => filterBy({ prefix: value })}
        />
        <FilterSelect
          label="State"
          value={state}
          options={STATES}
          onFilter={(value) => filterBy({ state: value })}
        />
      </div>
      <section aria-label="Keys of once" className="rounded-xl border bg-surface">
        <OnceList key={JSON.stringify(filter)} filter={filter} />
      </section>
    </>
  );
}
