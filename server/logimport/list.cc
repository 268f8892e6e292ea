// The formats that are known. To add one: its file in formats/, its maker in formats/formats.h, its line here, in its tier.
#include <algorithm>

#include "server/logimport/format.h"
#include "server/logimport/formats/formats.h"

namespace scalewatch::logimport {
namespace {

constexpr FormatEntry kFormats[] = {
    // ---- scalers and detectors
    {Tier::kEvent, make_apex},
    {Tier::kEvent, make_apex_legacy},
    {Tier::kEvent, make_deepspeed},
    {Tier::kEvent, make_optimizer_overflow},
    {Tier::kEvent, make_dllogger_scaler},
    {Tier::kEvent, make_colossalai},
    {Tier::kEvent, make_paddle},
    {Tier::kEvent, make_mindspore},
    {Tier::kEvent, make_fairseq},
    {Tier::kEvent, make_skipped_updates},
    {Tier::kEvent, make_pytorch},
    {Tier::kEvent, make_detectors},
    {Tier::kEvent, make_rank_differences},
    {Tier::kEvent, make_hf_frames},
    {Tier::kEvent, make_megatron_events},
    // ---- records of one trainer
    {Tier::kRecord, make_gpt_neox},
    {Tier::kRecord, make_megatron},
    {Tier::kRecord, make_fairseq_records},
    {Tier::kRecord, make_icefall},
    {Tier::kRecord, make_swin},
    {Tier::kRecord, make_metric_logger},
    {Tier::kRecord, make_mmengine},
    {Tier::kRecord, make_mmcv},
    {Tier::kRecord, make_mmcv_json},
    {Tier::kRecord, make_detectron2},
    {Tier::kRecord, make_torchtitan},
    {Tier::kRecord, make_torchtune},
    {Tier::kRecord, make_nanogpt},
    {Tier::kRecord, make_deepspeed_chat},
    {Tier::kRecord, make_insightface},
    {Tier::kRecord, make_paddle_records},
    {Tier::kRecord, make_yolact},
    {Tier::kRecord, make_tacotron2},
    {Tier::kRecord, make_espnet},
    {Tier::kRecord, make_dllogger},
    {Tier::kRecord, make_dllogger_json},
    {Tier::kRecord, make_hf_trainer},
    {Tier::kRecord, make_yolo_table},
    {Tier::kRecord, make_rsl_rl},
    {Tier::kRecord, make_clu},
    {Tier::kRecord, make_composer},
    {Tier::kRecord, make_coqui},
    {Tier::kRecord, make_mindspore_records},
    {Tier::kRecord, make_opennmt},
    {Tier::kRecord, make_wenet},
    {Tier::kRecord, make_number_lists},
    // ---- progress bars
    {Tier::kBar, make_progress_bar},
    // ---- generic
    {Tier::kGeneric, make_run_marks},
    {Tier::kGeneric, make_column_table},
    {Tier::kGeneric, make_row_table},
    {Tier::kGeneric, make_json_lines},
    {Tier::kGeneric, make_key_value},
};

constexpr ContentEntry kContentFormats[] = {
    {make_tensorboard}, {make_trainer_state}, {make_json_array}, {make_csv}, {make_number_columns},
};

}  // namespace

std::span<const FormatEntry> format_list() {
  return kFormats;
}

std::span<const ContentEntry> content_format_list() {
  return kContentFormats;
}

const std::vector<std::string_view>& line_format_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const FormatEntry& entry : format_list()) all.push_back(entry.make()->name());
    return all;
  }();
  return names;
}

const std::vector<std::string_view>& format_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    const auto add = [&](std::string_view name) {
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
    };
    for (const std::string_view name : line_format_names()) add(name);
    for (const ContentEntry& entry : content_format_list()) add(entry.make()->name());
    return all;
  }();
  return names;
}

}  // namespace scalewatch::logimport
