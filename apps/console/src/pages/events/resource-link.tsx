import { Link } from "@tanstack/react-router";

const TASK = "task:";

/** A link to the resource, or to the task of a task's lease. */
export function ResourceLink({ resource }: { readonly resource: string }) {
  const look = "block truncate hover:underline underline-offset-2";
  if (resource.startsWith(TASK)) {
    return (
      <Link
        to="/tasks/$id"
        params={{ id: resource.slice(TASK.length) }}
        title={resource}
        className={look}
      >
        {TASK}
        <span className="font-mono text-xs">{resource.slice(-8)}</span>
      </Link>
    );
  }
  return (
    <Link to="/leases/$resource" params={{ resource }} title={resource} className={look}>
      {resource}
    </Link>
  );
}
