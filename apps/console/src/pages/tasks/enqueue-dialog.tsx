/** The dialog that adds a task. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { readJson } from "leasehold/internal";
import type { Enqueued, NewTask } from "leasehold/internal/wire";
import { Button, Dialog } from "leasehold-ui";
import { type SubmitEvent, useState } from "react";
import { ApiError, api } from "../../data/api.js";
import { Field, Input, Textarea } from "../../ui/field.js";
import { Failure } from "../../ui/states.js";
import { notify } from "../../ui/toast.js";
import { exampleQuery } from "./task-queries.js";

interface Values {
  readonly kind: string;
  readonly queue: string;
  readonly priority: string;
  readonly scheduledAt: string;
  readonly dedupeKey: string;
  readonly maxAttempts: string;
}

/** The server's defaults. */
const DEFAULTS: Values = {
  kind: "default",
  queue: "default",
  priority: "0",
  scheduledAt: "",
  dedupeKey: "",
  maxAttempts: "10",
};

/** Why a text is refused; undefined if it is not. */
function jsonProblem(text: string): string | undefined {
  if (text.trim() === "") return "Enter JSON, or null for no data.";
  try {
    readJson(text);
    return undefined;
  } catch (error) {
    return `This ${(error as Error).message}`;
  }
}

interface Props {
  readonly kind: string | undefined;
  readonly queue: string | undefined;
  readonly onClose: () => void;
}

export function EnqueueDialog({ kind, queue, onClose }: Props) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [values, setValues] = useState<Values>({
    ...DEFAULTS,
    ...(kind !== undefined && { kind }),
    ...(queue !== undefined && { queue }),
  });
  // The kind when its field was left: a half-typed one is another kind.
  const [exampleKind, setExampleKind] = useState(values.kind);
  const found = useQuery(exampleQuery(exampleKind)).data;
  const example = exampleKind === values.kind ? found : undefined;
  const [edited, setEdited] = useState<string>();
  const data = edited ?? example ?? "{}";
  // Half-typed JSON is always invalid, so it is checked only on blur and on submit.
  const [checked, setChecked] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const problem = jsonProblem(data);
  const bind = (name: keyof Values) => ({
    value: values[name],
    onChange: ({ target }: { target: { value: string } }) =>
      setValues({ ...values, [name]: target.value }),
  });
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setChecked(true);
    if (problem !== undefined) return;
    try {
      const { id, status } = await api<Enqueued>("POST", "/api/tasks", {
        body: bodyOf(values, data),
      });
      notify(status === "duplicate" ? "A task with this dedupe key already exists" : `Added ${id}`);
      void queries.invalidateQueries({ queryKey: ["tasks"] });
      onClose();
      void navigate({ to: "/tasks/$id", params: { id } });
    } catch (error) {
      setFailure(error);
    }
  };
  return (
    <Dialog open onOpenChange={onClose} title="Add a task" wide>
      <form
        onSubmit={(event) => void submit(event)}
        className="grid items-start gap-4 sm:grid-cols-2"
      >
        <Field label="Kind" help="Selects the handler.">
          {(ids) => (
            <Input
              {...ids}
              required
              autoFocus
              onBlur={() => setExampleKind(values.kind)}
              {...bind("kind")}
            />
          )}
        </Field>
        <Field label="Queue">{(ids) => <Input {...ids} required {...bind("queue")} />}</Field>
        <div className="sm:col-span-2">
          <Field
            label="Data (JSON)"
            help={
              edited === undefined && typeof example === "string"
                ? "The data of the last task of this kind, as an example."
                : undefined
            }
            error={checked ? problem : undefined}
          >
            {(ids) => (
              <Textarea
                {...ids}
                rows={6}
                spellCheck={false}
                aria-invalid={checked && problem !== undefined}
                onBlur={() => setChecked(true)}
                value={data}
                onChange={({ target }) => setEdited(target.value)}
              />
            )}
          </Field>
        </div>
        <Field label="Not before" help="In your time zone. Empty: as soon as possible.">
          {(ids) => <Input {...ids} type="datetime-local" step={1} {...bind("scheduledAt")} />}
        </Field>
        <Field label="Priority" help="Lower numbers run first.">
          {(ids) => (
            <Input
              {...ids}
              {...{ type: "number", required: true, step: 1, min: -32_768, max: 32_767 }}
              {...bind("priority")}
            />
          )}
        </Field>
        <Field label="Dedupe key" help="At most one unfinished task per kind and key.">
          {(ids) => <Input {...ids} {...bind("dedupeKey")} />}
        </Field>
        <Field label="Max attempts" help="The task is dead after this many failures.">
          {(ids) => (
            <Input
              {...ids}
              {...{ type: "number", required: true, step: 1, min: 1, max: 32_767 }}
              {...bind("maxAttempts")}
            />
          )}
        </Field>
        {failure !== undefined && (
          <div className="sm:col-span-2">
            <Failure error={failure} />
            {failure instanceof ApiError && <FieldProblems error={failure} />}
          </div>
        )}
        <div className="flex justify-end gap-2 sm:col-span-2">
          <Button look="quiet" onClick={onClose}>
            Back
          </Button>
          <Button look="primary" type="submit">
            Add
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

const bodyOf = (
  { kind, queue, priority, scheduledAt, dedupeKey, maxAttempts }: Values,
  data: string,
): NewTask => ({
  kind,
  queue,
  task_data: readJson(data),
  priority: Number(priority),
  maxAttempts: Number(maxAttempts),
  ...(dedupeKey !== "" && { dedupeKey }),
  ...(scheduledAt !== "" && { scheduled_at: new Date(scheduledAt).toISOString() }),
});

function FieldProblems({ error }: { readonly error: ApiError }) {
  return (
    <ul className="text-center text-xs text-danger">
      {(error.problem.errors ?? []).map(({ path, problem }) => (
        <li key={path}>
          {path} {problem}
        </li>
      ))}
    </ul>
  );
}
