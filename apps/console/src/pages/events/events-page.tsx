import { Link } from "@tanstack/react-router";
import { Button, classNames, Icon, PageHead, useShortcuts } from "leasehold-ui";
import { useSyncExternalStore } from "react";
import { FilterInput, FilterSelect, useFilters } from "../../app/filters.js";
import { SEARCH_FIELD_ID } from "../../app/search-field.js";
import { activity } from "../../data/live.js";
import { Empty, Skeleton } from "../../ui/states.js";
import { ActivityList } from "./activity-list.js";
import { TOPICS, TYPES } from "./activity-text.js";
import { Refusals } from "./refusals.js";
import { useLog } from "./use-log.js";

export function EventsPage() {
  const [{ view }] = useFilters();
  const refused = view === "refused";
  return (
    <>
      <PageHead
        title="Events"
        about="Requests that this server handles, live. Other servers show their own."
      />
      <nav aria-label="Views" className="mb-3">
        <ul className="flex gap-1 border-b">
          <View name="Stream" view={undefined} current={!refused} />
          <View name="Refused writes" view="refused" current={refused} />
        </ul>
      </nav>
      {refused ? <Refusals /> : <Activity />}
    </>
  );
}

function View(props: { name: string; view: string | undefined; current: boolean }) {
  const current = props.current ? ("true" as const) : undefined;
  return (
    <li>
      <Link
        to="/events"
        search={{ view: props.view }}
        aria-current={current}
        activeProps={{ "aria-current": current }}
        className={classNames(
          "-mb-px inline-block border-b-2 px-3 py-2 text-sm",
          props.current
            ? "border-accent font-medium"
            : "border-transparent text-muted hover:text-ink",
        )}
      >
        {props.name}
      </Link>
    </li>
  );
}

function Activity() {
  const [{ topic, type, resource, holder }, filterBy] = useFilters();
  const log = useLog({ topic, type, resource, holder });
  const { shown, received, paused, waiting, pause, resume } = log;
  const toggle = paused ? resume : pause;
  useShortcuts({ p: toggle });
  const narrowed = [topic, type, resource, holder].some((one) => one !== undefined);
  return (
    <>
      <div className="mb-3 grid grid-cols-2 gap-2 lg:grid-cols-[9rem_10rem_minmax(0,1fr)_minmax(0,1fr)_auto]">
        <FilterSelect
          label="Topic"
          value={topic}
          options={TOPICS}
          onFilter={(value) => filterBy({ topic: value })}
        />
        <FilterSelect
          label="Type"
          value={type}
          options={TYPES}
          onFilter={(value) => filterBy({ type: value })}
        />
        <FilterInput
          id={SEARCH_FIELD_ID}
          label="Resource"
          value={resource}
          onFilter={(value) => filterBy({ resource: value })}
        />
        <FilterInput
          label="Holder"
          value={holder}
          onFilter={(value) => filterBy({ holder: value })}
        />
        <Button
          onClick={toggle}
          aria-keyshortcuts="p"
          className="max-lg:col-span-2"
          look={paused ? "primary" : "plain"}
        >
          <Icon name={paused ? "play" : "pause"} />
          {paused ? "Resume" : "Pause"}
        </Button>
      </div>
      <section aria-label="Event stream" className="rounded-xl border bg-surface">
        <div
          role="status"
          className="flex min-h-9 flex-wrap items-center gap-x-3 border-b px-4 py-2 text-xs text-muted"
        >
          <Following paused={paused} waiting={waiting} />
          <span className="ml-auto tabular">
            {narrowed && `${shown.length.toLocaleString("en")} of `}
            {received.toLocaleString("en")} events
          </span>
        </div>
        {shown.length > 0 ? (
          <ActivityList events={shown} />
        ) : (
          <Nothing narrowed={narrowed && received > 0} />
        )}
      </section>
    </>
  );
}

function Following({ paused, waiting }: { readonly paused: boolean; readonly waiting: number }) {
  const state = useSyncExternalStore(activity.watch, () => activity.state);
  if (paused) {
    return (
      <span className="font-medium text-warn">
        Paused: {waiting === 1 ? "1 new event" : `${waiting.toLocaleString("en")} new events`}
      </span>
    );
  }
  if (state === "broken") return <span className="text-danger">Disconnected, reconnecting</span>;
  return <span>{state === "live" ? "Live" : "Connecting"}</span>;
}

function Nothing({ narrowed }: { readonly narrowed: boolean }) {
  const state = useSyncExternalStore(activity.watch, () => activity.state);
  if (state === "connecting") return <Skeleton />;
  if (narrowed) return <Empty icon="filter" title="No events match the filters" />;
  return (
    <Empty icon="events" title="No events yet">
      {state === "broken"
        ? "No event stream: the server is unavailable, or this key may not read it."
        : "Acquired and lost leases, task progress and operator actions appear here as they happen."}
    </Empty>
  );
}
