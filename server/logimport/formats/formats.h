// Makers of the formats; list.cc registers them.
#pragma once

#include <memory>

#include "server/logimport/format.h"

namespace scalewatch::logimport {

// ---- scalers and detectors
std::unique_ptr<Format> make_apex();
std::unique_ptr<Format> make_apex_legacy();
std::unique_ptr<Format> make_deepspeed();
std::unique_ptr<Format> make_optimizer_overflow();
std::unique_ptr<Format> make_dllogger_scaler();
std::unique_ptr<Format> make_colossalai();
std::unique_ptr<Format> make_paddle();
std::unique_ptr<Format> make_mindspore();
std::unique_ptr<Format> make_fairseq();
std::unique_ptr<Format> make_skipped_updates();
std::unique_ptr<Format> make_pytorch();
std::unique_ptr<Format> make_detectors();
std::unique_ptr<Format> make_rank_differences();
std::unique_ptr<Format> make_hf_frames();
std::unique_ptr<Format> make_megatron_events();

// ---- records of one trainer
std::unique_ptr<Format> make_megatron();
std::unique_ptr<Format> make_fairseq_records();
std::unique_ptr<Format> make_icefall();
std::unique_ptr<Format> make_swin();
std::unique_ptr<Format> make_metric_logger();
std::unique_ptr<Format> make_mmengine();
std::unique_ptr<Format> make_mmcv();
std::unique_ptr<Format> make_mmcv_json();
std::unique_ptr<Format> make_detectron2();
std::unique_ptr<Format> make_torchtitan();
std::unique_ptr<Format> make_torchtune();
std::unique_ptr<Format> make_nanogpt();
std::unique_ptr<Format> make_deepspeed_chat();
std::unique_ptr<Format> make_gpt_neox();
std::unique_ptr<Format> make_insightface();
std::unique_ptr<Format> make_paddle_records();
std::unique_ptr<Format> make_yolact();
std::unique_ptr<Format> make_tacotron2();
std::unique_ptr<Format> make_espnet();
std::unique_ptr<Format> make_dllogger();
std::unique_ptr<Format> make_dllogger_json();
std::unique_ptr<Format> make_hf_trainer();
std::unique_ptr<Format> make_yolo_table();
std::unique_ptr<Format> make_rsl_rl();
std::unique_ptr<Format> make_clu();
std::unique_ptr<Format> make_composer();
std::unique_ptr<Format> make_coqui();
std::unique_ptr<Format> make_mindspore_records();
std::unique_ptr<Format> make_opennmt();
std::unique_ptr<Format> make_wenet();
std::unique_ptr<Format> make_number_lists();
std::unique_ptr<Format> make_row_table();

// ---- progress bars
std::unique_ptr<Format> make_progress_bar();

// ---- generic
std::unique_ptr<Format> make_run_marks();
std::unique_ptr<Format> make_column_table();
std::unique_ptr<Format> make_json_lines();
std::unique_ptr<Format> make_key_value();

// ---- whole files
std::unique_ptr<ContentFormat> make_tensorboard();
std::unique_ptr<ContentFormat> make_trainer_state();
std::unique_ptr<ContentFormat> make_json_array();
std::unique_ptr<ContentFormat> make_csv();
std::unique_ptr<ContentFormat> make_number_columns();

}  // namespace scalewatch::logimport
