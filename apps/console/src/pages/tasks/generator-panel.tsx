/** The generator of tasks: whether it is wanted, who does it, and how fast. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { GeneratorStatus } from "leasehold/internal/wire";
import { type SubmitEvent, useState } from "react";
import { api } from "../../data/api.js";
import { useMay } from "../../data/who.js";
import { Button } from "../../ui/button.js";
import { Input } from "../../ui/field.js";
import { Icon } from "../../ui/icon.js";
import { Failure, Skeleton } from "../../ui/states.js";
import { sayFailure } from "../../ui/toast.js";
import { Token } from "../../ui/token.js";
import { generatorQuery } from "./task-queries.js";

export function GeneratorPanel() {
  const { data, error, refetch } = useQuery(generatorQuery);
  return (
    <section aria-label="Generator" className="min-w-0 rounded-xl border bg-surface">
      {data ? (
        <Generator status={data} />
      ) : error ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : (
        <Skeleton lines={2} />
      )}
    </section>
  );
}

function Generator({ status }: { readonly status: GeneratorStatus }) {
  const mayOperate = useMay("operate");
  const { running, ratePerSecond, holder, fencingToken } = status;
  return (
    <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-3 px-4 py-3">
      <div className="min-w-0">
        <div className="flex items-center gap-2 text-sm">
          <span aria-hidden="true" className={`size-2 rounded-full ${dotOf(status)}`} />
          <h2 className="font-semibold">Generator</h2>
          <span className="text-muted">{saidOf(status)}</span>
        </div>
        <p className="mt-1 flex min-w-0 flex-wrap items-center gap-x-2 gap-y-1 text-xs text-muted">
          {holder === null ? (
            "Nobody has its lease."
          ) : (
            <>
              <span>held by</span>
              <span className="truncate font-medium text-ink">{holder}</span>
              <Token token={fencingToken} />
            </>
          )}
        </p>
      </div>
      {mayOperate && <Acts running={running} ratePerSecond={ratePerSecond} />}
    </div>
  );
}

const dotOf = ({ status, running }: GeneratorStatus) =>
  status === "STARTED" ? "bg-ok" : running ? "bg-warn" : "bg-line-strong";

function saidOf({ status, running, ratePerSecond }: GeneratorStatus): string {
  if (!running) return "stopped";
  if (status === "STARTED") return `adds ${ratePerSecond} a second`;
  return "wanted, but no process does it: run `leasehold generate run`";
}

function Acts({ running, ratePerSecond }: Pick<GeneratorStatus, "running" | "ratePerSecond">) {
  const queries = useQueryClient();
  const [rate, setRate] = useState(String(ratePerSecond));
  const [known, setKnown] = useState(ratePerSecond);
  if (known !== ratePerSecond) {
    setKnown(ratePerSecond);
    setRate(String(ratePerSecond));
  }
  const act = async (method: string, path: string, body?: object) => {
    try {
      const now = await api<GeneratorStatus>(method, `/api/generator/${path}`, { body });
      queries.setQueryData(generatorQuery.queryKey, now);
    } catch (error) {
      sayFailure(error);
    }
  };
  const changeRate = (event: SubmitEvent) => {
    event.preventDefault();
    void act("PUT", "rate", { ratePerSecond: Number(rate) });
  };
  return (
    <div className="flex flex-wrap items-center gap-2">
      <form onSubmit={changeRate} className="flex items-center gap-1.5">
        <label className="flex items-center gap-1.5 text-xs text-muted">
          <span className="sr-only">Rate, </span>
          <Input
            type="number"
            required
            min={0.01}
            max={1_000}
            step={0.01}
            className="h-7! w-20! px-2! text-xs!"
            value={rate}
            onChange={({ target }) => setRate(target.value)}
          />
          per second
        </label>
        <Button small type="submit" disabled={Number(rate) === ratePerSecond}>
          Set rate
        </Button>
      </form>
      <Button small onClick={() => void act("POST", running ? "stop" : "start")}>
        <Icon name={running ? "pause" : "play"} size={14} />
        {running ? "Stop" : "Start"}
      </Button>
    </div>
  );
}
