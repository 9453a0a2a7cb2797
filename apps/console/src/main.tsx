import { render } from "leasehold-ui";
import { App } from "./app/app.js";

render(<App />);
