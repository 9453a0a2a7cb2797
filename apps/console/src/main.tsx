import { createRoot } from "react-dom/client";
import "leasehold-ui/styles.css";
import { App } from "./app/app.js";

const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
