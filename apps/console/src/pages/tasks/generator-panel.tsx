/** The task generator: whether it should run, which process runs it, and at what rate. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { GeneratorStatus } from "leasehold-server/internal/generator";
import { Button, Icon, Token } from "leasehold-ui";
import { type SubmitEvent, useState } from "react";
import { api } from "../../data/api.js";
import { useMay } from "../../data/who.js";
import { Input } from "../../ui/field.js";
import { Failure, Skeleton } from "../../ui/states.js";
import { notifyFailure } from "../../ui/toast.js";
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
          <span className="text-muted">{statusText(status)}</span>
        </div>
        <p className="mt-1 flex min-w-0 flex-wrap items-center gap-x-2 gap-y-1 text-xs text-muted">
          {holder === null ? (
            "No process holds its lease."
          ) : (
            <>
              <span>run by</span>
              <span className="truncate font-medium text-ink">{holder}</span>
              <Token token={fencingToken} />
            </>
          )}
        </p>
      </div>
      {mayOperate && <Actions running={running} ratePerSecond={ratePerSecond} />}
    </div>
  );
}

const dotOf = ({ status, running }: GeneratorStatus) =>
  status === "STARTED" ? "bg-ok" : running ? "bg-warn" : "bg-line-strong";

function statusText({ status, running, ratePerSecond }: GeneratorStatus): string {
  if (!running) return "stopped";
  if (status === "STARTED")
    return `adds ${ratePerSecond} ${ratePerSecond === 1 ? "task" : "tasks"} a second`;
  return "started, but no process runs it. Run `leasehold generate run`.";
}

function Actions({ running, ratePerSecond }: Pick<GeneratorStatus, "running" | "ratePerSecond">) {
  const queries = useQueryClient();
  const [rate, setRate] = useState(String(ratePerSecond));
  const [known, setKnown] = useState(ratePerSecond);
  if (known !== ratePerSecond) {
    setKnown(ratePerSecond);
    setRate(String(ratePerSecond));
  }
  const send = async (method: string, path: string, body?: object) => {
    try {
      const now = await api<GeneratorStatus>(method, `/api/generator/${path}`, { body });
      queries.setQueryData(generatorQuery.queryKey, now);
    } catch (error) {
      notifyFailure(error);
    }
  };
  const changeRate = (event: SubmitEvent) => {
    event.preventDefault();
    void send("PUT", "rate", { ratePerSecond: Number(rate) });
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
      <Button small onClick={() => void send("POST", running ? "stop" : "start")}>
        <Icon name={running ? "pause" : "play"} size={14} />
        {running ? "Stop" : "Start"}
      </Button>
    </div>
  );
}
