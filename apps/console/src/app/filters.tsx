/** Filters of a page. The URL holds them, so that they can be shared and survive a reload. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ComponentProps, useEffect, useRef, useState } from "react";
import { Input, Select } from "../ui/field.js";
import type { Search } from "./search.js";

/** Debounce: a filter takes effect when the user has not typed for this long. */
const TYPING_MS = 250;

/** The filters and a setter for some of them; `undefined` removes a filter. */
export function useFilters(): [Search, (change: Search) => void] {
  const search: Search = useSearch({ strict: false });
  const navigate = useNavigate();
  const latest = useRef(search);
  useEffect(() => {
    latest.current = search;
  });
  const change = (next: Search) =>
    void navigate({
      to: ".",
      search: { ...latest.current, ...next },
      replace: true,
      resetScroll: false,
    });
  return [search, change];
}

interface FilterProps {
  readonly label: string;
  readonly value: string | undefined;
  readonly onFilter: (value: string | undefined) => void;
}

/** A text filter. It takes effect after a short pause in typing, or on Enter. */
export function FilterInput({
  label,
  value = "",
  onFilter,
  ...rest
}: FilterProps & Omit<ComponentProps<typeof Input>, "value">) {
  const [text, setText] = useState(value);
  const [known, setKnown] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [sent, setSent] = useState(value);
  if (known !== value) {
    setKnown(value);
    // The URL changed by a link or by Back. A change that this field itself caused keeps the typed text.
    if (value !== sent) setText(value);
  }
  useEffect(() => () => clearTimeout(timer.current), []);
  const commit = (next: string) => {
    clearTimeout(timer.current);
    setSent(next.trim());
    onFilter(next.trim() || undefined);
  };
  return (
    <Input
      aria-label={label}
      placeholder={label}
      type="search"
      spellCheck={false}
      value={text}
      onChange={({ target }) => {
        setText(target.value);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => commit(target.value), TYPING_MS);
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter") commit(event.currentTarget.value);
        if (event.key !== "Escape") return;
        // Browsers clear a search field on Escape.
        event.preventDefault();
        event.currentTarget.blur();
      }}
      {...rest}
    />
  );
}

/** A filter with a fixed list of values. */
export function FilterSelect({
  label,
  value,
  onFilter,
  options,
  className,
}: FilterProps & { readonly options: readonly string[]; readonly className?: string }) {
  return (
    <Select
      aria-label={label}
      {...(className !== undefined && { className })}
      value={value ?? ""}
      onChange={({ target }) => onFilter(target.value || undefined)}
    >
      <option value="">{label}: any</option>
      {options.map((option) => (
        <option key={option} value={option}>
          {option}
        </option>
      ))}
    </Select>
  );
}
