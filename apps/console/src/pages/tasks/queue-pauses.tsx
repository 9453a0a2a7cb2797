/** The list of paused queues, and the dialog that pauses one. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { Pause } from "leasehold/internal/wire";
import { Button, Dialog, Icon } from "leasehold-ui";
import { type SubmitEvent, useState } from "react";
import { api } from "../../data/api.js";
import { useMay, whoQuery } from "../../data/who.js";
import { Field, Input } from "../../ui/field.js";
import { ReasonField } from "../../ui/reason-field.js";
import { Failure } from "../../ui/states.js";
import { TimeText } from "../../ui/time.js";
import { notify, notifyFailure } from "../../ui/toast.js";
import { pausesQuery } from "./task-queries.js";

/** Renders nothing if the server keeps no pauses. */
export function PausedQueues() {
  const control = useQuery(whoQuery).data?.control ?? false;
  const mayRead = useMay("readAll");
  const paused = useQuery({ ...pausesQuery, enabled: control && mayRead }).data?.items ?? [];
  const queues = paused.filter(({ kind }) => kind === "queue");
  if (queues.length === 0) return null;
  return (
    <ul aria-label="Paused queues" className="grid gap-2">
      {queues.map((pause) => (
        <PausedQueue key={pause.name} pause={pause} />
      ))}
    </ul>
  );
}

function PausedQueue({ pause: { name, actor, reason, since } }: { readonly pause: Pause }) {
  const queries = useQueryClient();
  const mayOperate = useMay("operate");
  const resume = async () => {
    try {
      await api("DELETE", "/v1/pauses", { query: { kind: "queue", name } });
      notify(`Queue ${name} is resumed`);
    } catch (error) {
      notifyFailure(error);
    } finally {
      void queries.invalidateQueries(pausesQuery);
    }
  };
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-2 rounded-xl bg-warn-soft px-4 py-2.5 text-sm">
      <span className="text-warn">
        <Icon name="pause" />
      </span>
      <p className="min-w-0 flex-1 break-words">
        Queue <strong className="font-semibold">{name}</strong> is paused: {reason}{" "}
        <span className="text-xs whitespace-nowrap text-muted">
          ({actor}, <TimeText at={since} />)
        </span>
      </p>
      {mayOperate && (
        <Button small onClick={() => void resume()}>
          Resume {name}
        </Button>
      )}
    </li>
  );
}

/** @param queue the initial name, which the user can change */
export function PauseQueueDialog({
  queue,
  onClose,
}: {
  readonly queue: string;
  readonly onClose: () => void;
}) {
  const queries = useQueryClient();
  const [name, setName] = useState(queue);
  const [reason, setReason] = useState("");
  const [failure, setFailure] = useState<unknown>();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    try {
      await api("PUT", "/v1/pauses", { body: { kind: "queue", name, reason } });
      notify(`Queue ${name} is paused`);
      void queries.invalidateQueries(pausesQuery);
      onClose();
    } catch (error) {
      setFailure(error);
    }
  };
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title="Pause a queue"
      description="Workers claim no tasks from this queue until you resume it. Running tasks continue, and tasks can still be added."
    >
      <form onSubmit={(event) => void submit(event)} className="grid gap-4">
        <Field label="Queue">
          {(ids) => (
            <Input
              {...ids}
              required
              value={name}
              onChange={({ target }) => setName(target.value)}
            />
          )}
        </Field>
        <ReasonField reason={reason} onReason={setReason} required />
        {failure !== undefined && <Failure error={failure} />}
        <div className="flex justify-end gap-2">
          <Button look="quiet" onClick={onClose}>
            Back
          </Button>
          <Button look="primary" type="submit">
            Pause
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
