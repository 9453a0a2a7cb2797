/** The overview: counts, rates, the store's health, and the leaders. */

import { useQuery } from "@tanstack/react-query";
import type { Overview } from "leasehold/internal/wire";
import { Button, durationText, PageHead } from "leasehold-ui";
import { useFilters } from "../../app/filters.js";
import { get } from "../../data/api.js";
import { Failure, Skeleton } from "../../ui/states.js";
import { Charts } from "./charts.js";
import { Engine } from "./engine.js";
import { Figures } from "./figures.js";
import { Leaders } from "./leaders.js";
import { Slowest } from "./slowest.js";

const POLL_EVERY_MS = 2_000;
const SPANS = [60, 300] as const;

export function OverviewPage() {
  const [{ seconds: chosen }, filter] = useFilters();
  const seconds = SPANS.find((span) => String(span) === chosen) ?? SPANS[0];
  const { data, error, refetch } = useQuery({
    queryKey: ["overview", seconds],
    queryFn: ({ signal }) => get<Overview>("/v1/overview", { signal, query: { seconds } }),
    refetchInterval: POLL_EVERY_MS,
  });
  if (!data) {
    return (
      <>
        <PageHead title="Overview" />
        {error ? <Failure error={error} retry={() => void refetch()} /> : <Skeleton lines={8} />}
      </>
    );
  }
  return (
    <>
      <PageHead
        title="Overview"
        about={`Instance ${data.instance.id.slice(0, 8)}, version ${data.instance.version}, up for ${durationText(data.instance.upForMs)}`}
      >
        <span role="group" aria-label="Time range of the charts" className="flex gap-1">
          {SPANS.map((span) => (
            <Button
              {...{ key: span, small: true }}
              className="aria-pressed:border-accent aria-pressed:bg-accent-soft aria-pressed:text-accent"
              aria-pressed={span === seconds}
              onClick={() => filter({ seconds: span === SPANS[0] ? undefined : String(span) })}
            >
              {span / 60} min
            </Button>
          ))}
        </span>
      </PageHead>
      {error && (
        <p role="alert" className="mb-4 rounded-lg bg-danger-soft px-4 py-2.5 text-sm text-danger">
          The server is unavailable, so these figures are not current. {error.message}
        </p>
      )}
      <div className="grid grid-cols-[minmax(0,1fr)] gap-5">
        <Figures overview={data} />
        <Charts series={data.series} />
        <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-5 md:grid-cols-2 xl:grid-cols-3">
          <Leaders />
          <Engine overview={data} />
          <Slowest latency={data.latency} />
        </div>
      </div>
    </>
  );
}
