// What a dashboard's JSON may be: Grafana's own types (@grafana/schema), made strict where they leave a hole open: each panel type has its
// options and fields, an override its property's type, a target its data source's query. An unknown or misspelt field is an error.
import type * as grafana from '@grafana/schema';
import type * as bargauge from '@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen';
import type * as heatmap from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import type * as stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as statushistory from '@grafana/schema/dist/esm/raw/composable/statushistory/panelcfg/x/StatusHistoryPanelCfg_types.gen';
import type * as table from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type * as timeseries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';
import type * as trend from '@grafana/schema/dist/esm/raw/composable/trend/panelcfg/x/TrendPanelCfg_types.gen';
import type * as raw from '@grafana/schema/dist/esm/raw/dashboard/x/Dashboard_types.gen';

// JSON has no enums: their values instead.
export type Plain<T> = unknown extends T ? T
  : T extends string ? (string extends T ? string : `${T}`)
  : T extends number ? (`${T}` extends `${infer N extends number}` ? N : never)
  : T extends boolean | null | undefined ? T
  : T extends (infer E)[] ? Plain<E>[]
  : T extends object ? { [K in keyof T]: Plain<T[K]> }
  : T;

type Prometheus = { type: 'prometheus'; uid: '${datasource}' };
type Infinity = { type: 'yesoreyeram-infinity-datasource'; uid: '${infinity}' };
type BuiltIn = { type: 'grafana'; uid: '-- Grafana --' };

// As the data source's plugin reads it (grafana-prometheus, types.ts).
interface PrometheusQuery {
  refId: string;
  datasource: Prometheus;
  expr: string;
  legendFormat: string;
  editorMode: 'code';
  range: boolean;
  instant: boolean;
  format?: 'time_series' | 'table' | 'heatmap';
}

// As the Infinity plugin reads it (its query types), for JSON through its backend.
interface InfinityQuery {
  refId: string;
  datasource: Infinity;
  type: 'json';
  parser: 'backend';
  source: 'url';
  format: 'table' | 'timeseries' | 'dataframe';
  root_selector: string;
  url: `/api/v1/table/${string}`;
  url_options: { method: 'GET'; data: ''; params: { key: string; value: string }[] };
  columns: { selector: string; text: string; type: 'string' | 'number' | 'timestamp' | 'timestamp_epoch' | 'timestamp_epoch_s' }[];
  filters: [];
}

interface Link { title: string; url: string; targetBlank: boolean }
type Fields = Omit<raw.FieldConfig, 'custom' | 'links'> & { links?: Link[] };
type Property<Custom> =
  | { [K in keyof Required<Fields>]: { id: K; value: Plain<Required<Fields>[K]> } }[keyof Fields]
  | { [K in keyof Required<Custom> & string]: { id: `custom.${K}`; value: Plain<Required<Custom>[K]> } }[keyof Custom & string];
type Matcher = { id: 'byName' | 'byRegexp' | 'byType'; options: string };

type Transformation =
  | { id: 'merge'; options: Record<string, never> }
  | { id: 'organize'; options: { excludeByName: Record<string, true>; indexByName: Record<string, number>; renameByName: Record<string, string> } };

interface Of<Type extends string, Options, Custom> extends Omit<raw.Panel, 'type' | 'options' | 'fieldConfig' | 'targets' | 'datasource' | 'transformations' | 'title' | 'description' | 'gridPos' | 'id'> {
  id: number;
  type: Type;
  title: string;
  description: string;  // every panel has one
  gridPos: raw.GridPos;
  datasource: Prometheus | Infinity;
  targets: (PrometheusQuery | InfinityQuery)[];
  transformations?: Transformation[];
  options: Plain<Options>;
  fieldConfig: {
    defaults: Plain<Omit<Fields, 'links'>> & { links?: Link[]; custom?: Plain<Custom> };
    overrides: { matcher: Matcher; properties: Property<Custom>[] }[];
  };
}

// Table fields have defaults for what their type calls required.
type Panel =
  | Of<'timeseries', timeseries.Options, timeseries.FieldConfig>
  | Of<'trend', trend.Options, trend.FieldConfig>
  | Of<'stat', stat.Options, Record<never, never>>
  | Of<'bargauge', bargauge.Options, Record<never, never>>
  | Of<'heatmap', heatmap.Options, heatmap.FieldConfig>
  | Of<'status-history', statushistory.Options, statushistory.FieldConfig>
  | Of<'table', table.Options, table.FieldConfig>;
interface Row { id: number; type: 'row'; title: string; collapsed: boolean; gridPos: raw.GridPos; panels: [] }

type Variable = Plain<Omit<raw.VariableModel, 'type' | 'query' | 'datasource' | 'name' | 'description'>> & { name: string; description?: string } & (
  | { type: 'datasource'; query: 'prometheus' | 'yesoreyeram-infinity-datasource' }
  | { type: 'custom' | 'constant'; query: string }
  | { type: 'query'; datasource: Prometheus; query: { qryType: 0 | 1 | 2 | 3 | 4 | 5; query: string; refId: string } }
  | { type: 'query'; datasource: Infinity; query: { queryType: 'infinity'; query: ''; refId: string; infinityQuery: InfinityQuery } }
);

type Annotation =
  | { name: string; datasource: BuiltIn; enable: boolean; hide: boolean; iconColor: string; builtIn: 1; type: 'dashboard' }
  | {
      name: string; datasource: Prometheus; enable: boolean; hide: boolean; iconColor: string; expr: string; step: string; titleFormat: string;
      textFormat: string; tagKeys: string; useValueForTime: boolean;
    }
  | { name: string; datasource: Infinity; enable: boolean; hide: boolean; iconColor: string; target: InfinityQuery };

export interface Dashboard extends Omit<Plain<raw.Dashboard>, 'uid' | 'title' | 'description' | 'schemaVersion' | 'panels' | 'templating' | 'annotations'> {
  uid: `scalewatch-${string}`;
  title: string;
  description: string;
  schemaVersion: 42;  // the classic model's newest, @grafana/schema's default
  panels: (Panel | Row)[];
  templating: { list: Variable[] };
  annotations: { list: Annotation[] };
}
